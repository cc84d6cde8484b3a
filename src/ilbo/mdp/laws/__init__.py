"""Laws of the base noise ξ: what is random in one step, independent of state and action."""
