"""The algebra, the table of operators, and the functions that its rows are made of, one family of states a module.

They are called with NumPy's floating-point warnings off; the warnings that NumPy gives on purpose are raised here.
"""
