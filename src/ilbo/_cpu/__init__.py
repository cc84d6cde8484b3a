"""The fence: arrays in, arrays out, arranged to be fast on a CPU.

Nothing in here knows a network, a model or a problem. Each function computes what its docstring
says in plain terms; the tests compare it, value and gradient, with the plain expression.
"""
