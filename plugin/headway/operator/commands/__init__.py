"""The commands of an operator that last: what each has put in force, when it ends, and what it replaced."""
