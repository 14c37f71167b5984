"""The functions that rows of the operator table are made of, one family of states a module.

They are called with NumPy's floating-point warnings off; the warnings that NumPy gives on purpose are raised here.
"""
