"""What docs/battery.md does on the command line, in Python alone, cell by cell.

python examples/battery_in_python.py
"""

# %% The problem, and what its rule earns
import subprocess
import sys
from pathlib import Path

import ilbo
from battery import make
from ilbo.export import export_policy

problem = make(capacity=10.0)
rule = ilbo.evaluate(problem, problem.model.heuristic, 1, episodes=512)
print(f"the rule earns {rule.mean:.0f} €")


# %% Train. Ctrl-C would do the same as this function, which stops half-way
def half(record, policy):
    first = float(policy(problem.initial_state)[0])
    print(f"episode {record.episode}: {record.current:.0f} €, at first sells {first:.1f} MWh")
    return ilbo.STOP if record.episode == 100 else None


plan = ilbo.plan(problem, episodes=200, out="runs/in-python", progress=half)
print(f"{plan.ending} after {plan.episode} episodes")

# %% Train it further: as far as it was meant to go, and until the tests no longer get better
plan = ilbo.resume("runs/in-python", problem, episodes=400, patience=4, progress="bar")
print(f"{plan.ending} after {plan.episode} episodes")

# %% Open the folder, now or on another day
run = ilbo.Run("runs/in-python", problem)
print(f"{run.evaluate().mean:.0f} € on fresh episodes")
found = ilbo.compare(problem, run.policy, problem.model.heuristic, 1, episodes=512)
print(f"better than the rule by {found.difference:.0f} €, 95 % {found.ci95}")
print(f"report: {run.report()}")

# %% A larger battery, from the policy of the smaller one
larger = make(capacity=20.0, power=8.0)
warm = ilbo.plan(larger, episodes=50, warm_start=run.policy)
print(f"the larger battery, first test {warm.history[0][0].current:.0f} €")

# %% Ship the policy and call it in another process, which knows neither ilbo nor JAX
exported = export_policy(run.policy, problem, "shipped-from-python", onnx=True)
caller = Path(__file__).parent / "call_policy.py"
subprocess.run([sys.executable, caller, exported.files["onnx"], "5", "0", "18"], check=True)
