"""What a continuous MDP is: model, problem, laws of noise, density, simulation, statistics."""
