# %% [markdown]
# # The quickstart as a notebook
#
# Train a first policy, see what it earns and what it does, and keep it. Install with `pip install ilbo`.

# %% [markdown]
# ## A problem
#
# `navigation-3` walks on a plane from the lower left to a goal; three zones slow it down, and the ground is
# slippery, so a step lands beside where it was aimed.

# %%
import ilbo

problem = ilbo.make("navigation-3")
print(problem.state_names, problem.action_names)
print("horizon", problem.horizon, "start", problem.initial_state)

# %% [markdown]
# ## Training
#
# 200 episodes of 20 steps, from scratch. In a notebook of your own, `progress="bar"` shows how it goes.

# %%
plan = ilbo.plan(problem, episodes=200)
print(plan.samples.transitions, "steps of the model in episodes")

# %% [markdown]
# ## What it earns
#
# On fresh episodes, which training has not seen; and beside the controller that comes with the problem, on equal
# noise.

# %%
result = ilbo.evaluate(problem, plan.policy, 1, episodes=1024)
low, high = result.ci95
print(f"mean {result.mean:.1f}, 95 % [{low:.1f}, {high:.1f}]")
other = ilbo.compare(problem, plan.policy, "heuristic", 1, episodes=1024)
low, high = other.ci95
print(f"minus the controller: {other.difference:.1f}, 95 % [{low:.1f}, {high:.1f}]")

# %% [markdown]
# ## What it does

# %%
from IPython.display import Image

from ilbo import plots

plots.trajectories(problem, plan.policy, "paths.png")
Image("paths.png", alt="Paths of the trained policy between the zones", width=600)

# %% [markdown]
# ## Keeping it
#
# A policy file holds arrays and a description, never code.

# %%
ilbo.save_policy(plan.policy, "policy.ilbo", problem)
policy = ilbo.load_policy("policy.ilbo")
policy(problem.initial_state)

# %% [markdown]
# From here: [a model of your own](own_model.ipynb), [problems in RDDL](rddl.ipynb),
# [comparing runs](comparing_runs.ipynb).
