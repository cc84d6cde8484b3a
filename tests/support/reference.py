"""Plain NumPy versions of the built-in problems, written from the published figures.

Loops and scalars, no code shared with the package: what it computes must agree with this.
"""

import json
import math
from pathlib import Path

import numpy as np

FACTS = json.loads((Path(__file__).parent / "facts.json").read_text())


class Navigation:
    def __init__(self, name):
        self.facts = FACTS["navigation"]["instances"][name]

    def step(self, location, move, noise):
        slow = 1.0
        for zone in self.facts["zones"]:
            distance = math.dist(location, zone["center"])
            slow *= 2 / (1 + math.exp(-zone["decay"] * distance)) - 1
        variance = self.facts["move_variance"]
        following = [
            location[i] + slow * move[i] + math.sqrt(variance[i]) * noise[i] for i in range(2)
        ]
        return np.array(following), -math.dist(self.facts["goal"], location)


class HVAC:
    def __init__(self, name):
        self.facts = FACTS["hvac"]["instances"][name]
        self.constants = FACTS["hvac"]["constants"]

    def step(self, temp, air, noise):
        f, c = self.facts, self.constants
        rooms = f["rooms"]
        pairs = {tuple(p) for p in f["adjacent"]} | {tuple(p[::-1]) for p in f["adjacent"]}
        following, reward = [], 0.0
        for s in range(rooms):
            t_out = c["temp_outside_mean"] + math.sqrt(c["temp_outside_variance"]) * noise[s]
            t_hall = c["temp_hall_mean"] + math.sqrt(c["temp_hall_variance"]) * noise[rooms + s]
            flow = air[s] * c["cap_air"] * (c["temp_air"] - temp[s])
            for p in range(rooms):
                if (s, p) in pairs:
                    flow += (temp[p] - temp[s]) / c["r_wall"]
                if s in f["adj_outside"]:
                    flow += (t_out - temp[s]) / c["r_outside"]
                if s in f["adj_hall"]:
                    flow += (t_hall - temp[s]) / c["r_hall"]
            following.append(temp[s] + c["time_delta"] / c["cap"] * flow)
            reward -= air[s] * c["cost_air"]
            if temp[s] < c["temp_low"] or temp[s] > c["temp_up"]:
                reward -= c["penalty"]
            reward -= 10 * abs((c["temp_up"] + c["temp_low"]) / 2 - temp[s])
        return np.array(following), reward


class Reservoir:
    def __init__(self, name):
        self.facts = FACTS["reservoir"]["instances"][name]
        self.constants = FACTS["reservoir"]["constants"]

    def step(self, level, outflow, noise):
        f, c = self.facts, self.constants
        n = f["reservoirs"]
        overflow = [max(0.0, level[i] - outflow[i] - f["max_res_cap"][i]) for i in range(n)]
        following, reward = [], 0.0
        for i in range(n):
            inflow = sum(outflow[up] + overflow[up] for up, down in f["downstream"] if down == i)
            evaporated = c["max_water_evap_frac"] * (level[i] / f["max_res_cap"][i]) ** 2 * level[i]
            rain = f["rain_scale"][i] * noise[i]
            new = max(0.0, level[i] + rain - evaporated - outflow[i] - overflow[i] + inflow)
            following.append(new)
            if new < f["lower_bound"][i]:
                reward += c["low_penalty"] * (f["lower_bound"][i] - new)
            elif new > f["upper_bound"][i]:
                reward += c["high_penalty"] * (new - f["upper_bound"][i])
        return np.array(following), reward


def reference(name):
    family = {"navigation": Navigation, "hvac": HVAC, "reservoir": Reservoir}
    return family[name.split("-")[0]](name)
