"""How rows are trained: engines that do the same arithmetic at different speeds.

An engine is given the work of one round for a stack of models and trains them in place. Rows do not
interact, so a result does not depend on which rows are trained together.
"""
