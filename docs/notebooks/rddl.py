# %% [markdown]
# # Problems in RDDL, as a notebook
#
# Plan for a problem that is written in RDDL. This needs `pip install 'ilbo[rddl]'`.

# %% [markdown]
# ## A file
#
# A cart is pushed to 5 m along a line. Preconditions bound the push; the wind is a draw of the transition.

# %%
from pathlib import Path

text = """
domain cart {
    types { };
    pvariables {
        GOAL : { non-fluent, real, default = 0.0 };
        place : { state-fluent, real, default = 0.0 };
        speed : { state-fluent, real, default = 0.0 };
        push : { action-fluent, real, default = 0.0 };
    };
    cpfs {
        place' = place + 0.2 * speed;
        speed' = 0.95 * speed + 0.2 * push + Normal(0, 0.01);
    };
    reward = -(place - GOAL) * (place - GOAL) - 0.1 * push * push;
    action-preconditions {
        push >= -2;
        push <= 2;
    };
}

non-fluents one_cart {
    domain = cart;
    non-fluents { GOAL = 5.0; };
}

instance cart_1 {
    domain = cart;
    non-fluents = one_cart;
    max-nondef-actions = pos-inf;
    horizon = 30;
    discount = 1.0;
}
"""
_ = Path("cart.rddl").write_text(text)

# %%
import ilbo

problem = ilbo.make("cart.rddl")
print(problem.state_names, problem.action_names, problem.horizon)
print(problem.model.bounds(problem.initial_state))

# %% [markdown]
# ## Training
#
# The file says nothing of where states lie, so the region that training starts from is guessed by simulation.

# %%
plan = ilbo.plan(problem, episodes=200)
found = ilbo.compare(problem, plan.policy, "midpoint", 1, episodes=1024)
low, high = found.ci95
print(f"trained {found.first.mean:.1f}, without a push {found.second.mean:.1f}")
print(f"difference {found.difference:.1f}, 95 % [{low:.1f}, {high:.1f}]")

# %%
from IPython.display import Image

from ilbo import plots

plots.trajectories(problem, plan.policy, "cart.png")
Image("cart.png", alt="Place, speed and push over 30 steps", width=600)

# %% [markdown]
# `ilbo inspect cart.rddl` shows how a file is read, `ilbo.make("rddl:HVAC/0")` is a problem of rddlrepository.
# What is translated how: [Problems in RDDL](../rddl.md).
