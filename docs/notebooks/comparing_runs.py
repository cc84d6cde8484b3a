# %% [markdown]
# # Comparing runs
#
# Train with two settings and several seeds, keep the runs, and say which setting is better and how sure that is.

# %%
import ilbo

problem = ilbo.make("navigation-3")
small = ilbo.ILBO(layers=(8,))
large = ilbo.ILBO(layers=(32, 32))
for name, config in {"small": small, "large": large}.items():
    ilbo.plan(problem, config, seeds=[0, 1], episodes=100, out=f"runs/{name}")

# %% [markdown]
# ## Opening a run
#
# A run folder holds settings, tests and policies; `Run` opens it, also while it is still being written.

# %%
runs = {name: ilbo.Run(f"runs/{name}") for name in ("small", "large")}
for name, run in runs.items():
    ends = [f"{tests[-1].current:.1f}" for tests in run.history]
    print(name, run.config.layers, "last tests:", *ends)

# %% [markdown]
# ## On equal noise
#
# Seed by seed, on the same 2,048 fresh episodes: the interval is that of the difference, which is narrower than the
# returns' own.

# %%
for seed, pair in enumerate(zip(runs["large"].policies, runs["small"].policies, strict=True)):
    found = ilbo.compare(problem, *pair, 1, episodes=2048)
    low, high = found.ci95
    print(f"seed {seed}: large minus small {found.difference:.2f}, 95 % [{low:.2f}, {high:.2f}]")

# %% [markdown]
# Two seeds show that it can be so, not that it is: take more before you conclude anything.

# %%
from IPython.display import Image

from ilbo import plots

plots.learning_curve(runs["large"].history, "curve.png", title="large")
Image("curve.png", alt="Return against training episodes", width=600)

# %% [markdown]
# On the command line, with a page that opens from disk:
#
# ```console
# $ ilbo compare runs/large runs/small
# $ ilbo report runs/large runs/small
# ```
