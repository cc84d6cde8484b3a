"""Names to problems: built-in ones, RDDL; what files must say of a problem to find it again."""
