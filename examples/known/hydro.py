"""A valley of two dams over three seasons, after the example of SDDP.jl, in its four variants.

Water through a turbine makes power by a concave curve; the lower dam gets what the upper one lets
out. Inflows are known before acting, as is the price, so both are part of the state.
"""

import itertools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog

import ilbo
from known import Known, Truth

FULL = 200.0
FLOW, POWER = np.array([0.0, 50.0, 60.0, 70.0]), np.array([0.0, 55.0, 65.0, 70.0])
INFLOWS = np.array([[0.0, 0.0], [20.0, 0.0], [50.0, 20.0]], np.float32)
"""Of both dams in seasons 2 and 3, equally likely; none in season 1."""
PRICES = np.array([[1.0, 1.0], [2.0, 1.0], [3.0, 4.0]], np.float32)
"""In each season, for both places of the market."""
MARKET = np.array([[[0.6, 0.4], [0.6, 0.4]], [[0.6, 0.4], [0.3, 0.7]]])
"""Chances of the place in the next season, after seasons 1 and 2."""
SPILLING = 1000.0


class Valley(ilbo.Model):
    """State: both levels, both inflows, the place of the market, the season; action: the flow
    through each turbine. Inflow that finds no room may be refused; what the upper dam lets out
    may not, and spills at a cost."""

    law: ilbo.Product
    market: ilbo.MarkovChain
    rains: bool = eqx.field(static=True)
    trades: bool = eqx.field(static=True)

    def flows(self, state, action):
        """The lower turbine has what is there by the end of the season."""
        there = state[1] + state[3] + action[0]
        return jnp.stack([action[0], jnp.minimum(action[1], there)])

    def transition(self, state, action, noise):
        flow = self.flows(state, action)
        upper = jnp.minimum(state[0] - flow[0] + state[2], FULL)
        lower = jnp.minimum(state[1] - flow[1] + flow[0] + state[3], FULL)
        inflow = noise[:2] if self.rains else jnp.zeros(2)
        place = self.market.step(state[4], noise[2], state[5]) if self.trades else state[4]
        return jnp.stack([upper, lower, *inflow, place, state[5] + 1])

    def reward(self, state, action, next_state):
        flow = self.flows(state, action)
        power = jnp.interp(flow, FLOW, POWER).sum()
        price = jnp.asarray(PRICES)[state[5].astype(int), state[4].astype(int)]
        spilled = jnp.maximum(state[1] - flow[1] + flow[0] - FULL, 0.0)
        return price * power - SPILLING * spilled

    def bounds(self, state):
        return jnp.zeros(2), jnp.stack([jnp.minimum(FLOW[-1], state[0] + state[2]), FLOW[-1]])


def hydro(rains: bool, trades: bool) -> Known:
    """With random inflows or without; with a random price or with 1, 2, 3."""
    market = ilbo.MarkovChain(MARKET)
    law = ilbo.Product([ilbo.Empirical(INFLOWS), market.law])
    name = "hydro" + "-inflows" * rains + "-prices" * trades
    problem = ilbo.Problem(
        Valley(law, market, rains, trades),
        name=name,
        initial_state=[FULL, FULL, 0, 0, 0, 0],
        horizon=3,
        region=([0.0] * 6, [FULL, FULL, 50.0 * rains, 20.0 * rains, float(trades), 2.0]),
    )
    return Known(problem, lambda: Truth(optimum(rains, trades), "linear program"))


def optimum(rains: bool, trades: bool) -> float:
    """The linear program over the tree of all that may happen.

    Of each node: the weights of both curves' points, spilling, refusing, and the levels after it.
    """
    rain = INFLOWS if rains else INFLOWS[:1]
    nodes = [(0, 1.0, np.zeros(2), 0, None)]  # season, chance, inflow, place, parent
    for i, (season, chance, _, place, _) in enumerate(nodes):  # grows as it goes
        if season < 2:
            chances = MARKET[season, place] if trades else [1.0]
            nodes += [
                (season + 1, chance * likely / len(rain), inflow, after, i)
                for inflow, (after, likely) in itertools.product(rain, enumerate(chances))
            ]
    points = len(FLOW) - 1
    size = 2 * points + 6  # weights, spilled, refused, levels
    cost, rows, right = np.zeros(size * len(nodes)), [], []
    equal, given, limits = [], [], []
    for i, (season, chance, inflow, place, parent) in enumerate(nodes):
        at = i * size
        for dam in range(2):
            weights = slice(at + dam * points, at + (dam + 1) * points)
            cost[weights] = -chance * PRICES[season, place] * POWER[1:]
            row = np.zeros(len(cost))
            row[weights] = 1.0
            rows.append(row)
            right.append(1.0)
            # Level + flow + spilled + refused − what comes from above = level before + inflow.
            row = np.zeros(len(cost))
            row[weights] = FLOW[1:]
            row[[at + 2 * points + dam, at + 2 * points + 2 + dam, at + 2 * points + 4 + dam]] = 1.0
            if dam:
                row[at : at + points] -= FLOW[1:]
                row[at + 2 * points] -= 1.0
            before = FULL
            if parent is not None:
                row[parent * size + 2 * points + 4 + dam] = -1.0
                before = 0.0
            equal.append(row)
            given.append(before + inflow[dam])
        cost[at + 2 * points : at + 2 * points + 2] = chance * SPILLING
        limits += [(0, None)] * (2 * points + 2) + [(0, inflow[0]), (0, inflow[1])]
        limits += [(0, FULL)] * 2
    found = linprog(cost, rows, right, equal, given, limits)
    return float(-found.fun)
