"""Asks an exported policy for an action, with onnxruntime alone: neither ilbo nor JAX is needed.

python examples/call_policy.py shipped/policy.onnx 5 0 18
"""

import sys

import numpy as np
import onnxruntime

path, *state = sys.argv[1:]
policy = onnxruntime.InferenceSession(path)
(states,) = policy.get_inputs()  # [batch, n]
(actions,) = policy.run(None, {states.name: np.array([state], np.float32)})
print(*(round(float(x), 3) for x in actions[0]))
