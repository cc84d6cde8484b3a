# %% [markdown]
# # A model of your own, as a notebook
#
# Write a model, check it, train a policy for it and see whether that beats a rule of thumb.

# %% [markdown]
# ## The model
#
# A tank fills by 2 m a day, more or less, and should stand at 10 m. What can be released is at most what is in it.
# Noise is an argument of `transition`, so that JAX differentiates through a step.

# %%
import jax.numpy as jnp

import ilbo


class Tank(ilbo.Model):
    law = ilbo.Gaussian(1)

    def transition(self, state, action, noise):
        return jnp.maximum(state - action + 2 + 0.5 * noise, 0.0)

    def reward(self, state, action, next_state):
        return -jnp.sum((next_state - 10) ** 2) - 0.1 * jnp.sum(action**2)

    def bounds(self, state):
        return jnp.zeros(1), state

    def heuristic(self, state):
        return jnp.clip(0.5 * (state - 6), 0.0, state)  # 2 m at a level of 10 m


tank = ilbo.Problem(
    Tank(),
    name="tank",
    initial_state=[3.0],
    horizon=30,
    region=(0.0, 20.0),
    state_names=("level",),
    action_names=("release",),
    state_units=("m",),
    action_units=("m",),
)

# %% [markdown]
# ## Is anything off with it?
#
# `check` simulates the model and looks for what is usually wrong: gradients that are not finite or always 0, states
# that leave the region, rewards of odd sizes.

# %%
print(ilbo.check(tank))

# %% [markdown]
# ## Training

# %%
plan = ilbo.plan(tank, episodes=200)
found = ilbo.compare(tank, plan.policy, "heuristic", 1, episodes=1024)
low, high = found.ci95
print(f"trained {found.first.mean:.1f}, rule {found.second.mean:.1f}")
print(f"difference {found.difference:.1f}, 95 % [{low:.1f}, {high:.1f}]")

# %%
from IPython.display import Image

from ilbo import plots

plots.trajectories(tank, plan.policy, "tank.png")
Image("tank.png", alt="Level and release over 30 days", width=600)

# %% [markdown]
# In a file `tank.py`, the same model is planned for on the command line:
#
# ```console
# $ ilbo check tank.py:tank
# $ ilbo plan tank.py:tank --out runs/tank
# ```
#
# More about models: [A model of your own](../own_model.md), [Checking a model](../check.md).
