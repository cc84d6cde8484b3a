"""pyRDDLGym's own NumPy simulator, with the draws that it makes injected."""

import numpy as np
from pyRDDLGym.core.simulator import RDDLSimulator

from ilbo.rddl.parsing import is_random, parse, quiet


class Injected:
    """Stands in for a NumPy generator: the base noise of the next draw is given."""

    noise: np.ndarray

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
        return self.noise

    def gamma(self, shape, scale):
        return scale * self.noise


class Simulator(RDDLSimulator):
    """Steps from any state, with any noise."""

    def __init__(self, source, slots):
        with quiet():
            super().__init__(parse(source), keep_tensors=True, objects_as_strings=False)
        self.slots = slots
        self.rng = Injected()

    def _sample_random(self, expr, subs):
        if is_random(expr):
            slot = self.slots[expr.id]
            assert slot.distribution == expr.etype[1]
            noise = self.xi[slot.start : slot.start + slot.draw.law.size]
            self.rng.noise = noise.reshape(slot.draw.noise_shape)
        return super()._sample_random(expr, subs)

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
