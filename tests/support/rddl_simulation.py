"""pyRDDLGym's own NumPy simulator, with the draws that it makes injected."""

import jax
import jax.numpy as jnp
import numpy as np
from pyRDDLGym.core.simulator import RDDLSimulator
from scipy import stats

from ilbo import rddl
from ilbo.mdp.bounds import within
from ilbo.rddl.parsing import is_random, parse, quiet


class Injected:
    """Stands in for a NumPy generator: the base noise of the next draw is given, and its law."""

    noise: np.ndarray
    law: str

    def normal(self, loc, scale):
        return loc + scale * self.noise

    def uniform(self, low=0.0, high=1.0, size=None):
        return low + (high - low) * self.noise

    def exponential(self, scale):
        return scale * self.noise

    def laplace(self, loc, scale):
        return loc + scale * self.noise

    gumbel = laplace

    def standard_cauchy(self, size=None):
        return self.noise

    def weibull(self, a):
        return self.noise if self.law == "Weibull" else self.noise ** (1 / a)

    def gamma(self, shape, scale):
        return scale * (self.noise if self.law == "Gamma" else stats.gamma.ppf(self.noise, shape))

    def geometric(self, p):
        return stats.geom.ppf(self.noise, p).astype(int)

    def poisson(self, lam):
        return stats.poisson.ppf(self.noise, lam).astype(int)

    def binomial(self, n, p):
        return stats.binom.ppf(self.noise, n, p).astype(int)

    def negative_binomial(self, n, p):
        return stats.nbinom.ppf(self.noise, n, p).astype(int)


class Simulator(RDDLSimulator):
    """Steps from any state, with any noise."""

    def __init__(self, source, slots, **options):
        with quiet():
            super().__init__(parse(source), keep_tensors=True, objects_as_strings=False, **options)
        self.slots = slots
        self.rng = Injected()

    def _sample_random(self, expr, subs):
        if is_random(expr):
            slot = self.slots[expr.id]
            assert slot.distribution == expr.etype[1]
            noise = self.xi[slot.start : slot.start + slot.draw.law.size]
            self.rng.noise = noise.reshape(slot.draw.noise_shape)
            self.rng.law = type(slot.draw.law).__name__
            if "Discrete" in slot.distribution:
                return self._case(expr, subs, self.rng.noise)
        return super()._sample_random(expr, subs)

    def _case(self, expr, subs, gumbel):
        """One case, by the largest perturbed log-probability."""
        cases = self.traced.cached_sim_info(expr) or expr.args[-1]
        weights = [self._sample(case, subs) for case in cases]
        weights = weights[0] if "(p)" in expr.etype[1] else np.stack(weights, axis=-1)
        assert np.all(weights >= 0)
        assert "Unnorm" in expr.etype[1] or np.allclose(np.sum(weights, axis=-1), 1)
        with np.errstate(divide="ignore"):
            return np.argmax(gumbel + np.log(weights), axis=-1)

    def move(self, layouts, state, action, noise):
        """The next state, the reward and whether the episode has ended."""
        states, actions = layouts
        self.reset()
        self.xi = np.asarray(noise, np.float64)
        self.subs.update(_tensors(states, state))
        _, reward, terminated = self.step(_tensors(actions, action))
        ended = terminated or not self.check_state_invariants(silent=True)
        visible = [f for f in states.fluents if f.name in self.state]
        following = np.concatenate([np.ravel(self.subs[f.name]).astype(float) for f in visible])
        return following, reward, ended

    def allows(self, layouts, state, action):
        """Whether the preconditions hold."""
        states, actions = layouts
        self.reset()
        self.subs.update(_tensors(states, state))
        return self.check_action_preconditions(_tensors(actions, action), silent=True)


def _tensors(layout, vector):
    """Fluent tensors in the types that the simulator expects."""
    tensors, start = {}, 0
    for fluent in layout.fluents:
        part = np.asarray(vector, np.float64)[start : start + fluent.size].reshape(fluent.shape)
        start += fluent.size
        if fluent.range == "bool":
            part = part > 0.5
        elif fluent.range != "real":
            part = np.round(part).astype(int)
        tensors[fluent.name] = part
    return tensors


class Comparison:
    """The compiled model beside the simulator: transition, reward, ends and preconditions.

    Both step from the same states with the same actions and noise: half of the states are visited
    from the initial one, the others are these at random off their place.
    """

    def __init__(self, source, seed=0, **options):
        self.model = model = rddl.exact_model(source, **options)
        dynamics = model.dynamics
        self.layouts = dynamics.state, dynamics.action
        self.simulator = Simulator(source, dynamics.compiler.slots)
        self.draw = np.random.default_rng(seed)
        preconditions = dynamics.compiler.rddl.preconditions
        allowed = [dynamics.compiler.function(root) for root in preconditions]

        @jax.jit
        def step(state, action, noise):
            following = model.transition(state, action, noise)
            values = dynamics.values(state, action)
            holds = jnp.array(True)
            for condition in allowed:
                holds &= condition(values) > 0.5
            reward = model.reward(state, action, following)
            return following, reward, model.terminal(following), holds

        self.step = step
        self.bounds = jax.jit(lambda state: model.bounds(state))

    def run(self, steps, tolerance):
        """How many steps were equal, how many the simulator refused, and what differed."""
        noises = self.model.law.sample(jax.random.key(1), (steps,))
        visited = state = self.model.dynamics.initial()
        found = {"equal": 0, "refused": 0, "differ": []}
        for i, noise in enumerate(noises):
            state = visited if i % 2 == 0 else self.elsewhere(visited)
            action = self.action(state)
            try:
                with np.errstate(all="ignore"):
                    wanted = *self.simulator.move(self.layouts, state, action, noise), None
                    wanted = *wanted[:3], self.simulator.allows(self.layouts, state, action)
            except (ValueError, TypeError, ArithmeticError, AssertionError) as error:
                found["refused"] += 1
                found["why"] = str(error).splitlines()[0][:200]
                continue
            got = jax.tree.map(np.asarray, self.step(state, action, noise))
            wrong = self.differences(got, wanted, state, tolerance)
            found["equal"] += not wrong
            found["differ"] += wrong
            if i % 2 == 0 and not wanted[2] and np.all(np.isfinite(got[0])):
                visited = got[0]
        return found

    def differences(self, got, wanted, state, tolerance):
        following, reward, ended, allowed = got
        names = self.layouts[0].names[: len(wanted[0])]
        scale = 1 + np.abs(wanted[0]) + np.abs(np.asarray(state)[: len(wanted[0])])
        gap = np.abs(following[: len(wanted[0])] - wanted[0]) / scale
        same = (gap <= tolerance) | (np.isnan(following[: len(gap)]) & np.isnan(wanted[0]))
        same |= following[: len(gap)] == wanted[0]  # infinite ones
        wrong = [name for name, equal in zip(names, same, strict=True) if not equal]
        if not np.isclose(reward, wanted[1], rtol=tolerance, atol=tolerance, equal_nan=True):
            wrong.append("reward")
        wrong += ["end"] * (bool(ended) != wanted[2])
        return wrong + ["preconditions"] * (bool(allowed) != wanted[3])

    def elsewhere(self, state):
        """A state near another: real numbers moved, others now and then changed."""
        return self._shaken(self.layouts[0], state, chance=0.2)

    def action(self, state):
        """A random action within the bounds, no more off its default than the instance allows."""
        rules, layout = self.model.rules, self.layouts[1]
        low, high = self.bounds(state)
        unit = self.draw.uniform(size=layout.size)
        inside = np.asarray(within(low, high, jnp.asarray(unit)))
        shaken = self._shaken(layout, rules.defaults, chance=0.7)
        real = np.concatenate([np.full(f.size, f.range == "real") for f in layout.fluents])
        action = np.where(real, inside, np.clip(shaken, low, high))
        most = min(rules.most_changed, layout.size)
        kept = self.draw.permutation(layout.size)[: layout.size - most]
        action[kept] = rules.defaults[kept]
        return action

    def _shaken(self, layout, vector, chance):
        objects = self.model.dynamics.compiler.rddl.type_to_objects
        parts, start = [], 0
        for fluent in layout.fluents:
            part = np.asarray(vector, np.float64)[start : start + fluent.size]
            start += fluent.size
            if fluent.range == "real":
                parts.append(part + 0.1 * (1 + np.abs(part)) * self.draw.normal(size=part.size))
                continue
            if fluent.range == "int":
                other = np.maximum(part + self.draw.integers(-1, 3, part.size), 0)
            else:
                cases = len(objects.get(fluent.range, (False, True)))
                other = self.draw.integers(0, cases, part.size)
            parts.append(np.where(self.draw.uniform(size=part.size) < chance, other, part))
        return np.concatenate(parts)
