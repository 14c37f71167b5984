"""The functions that rows of the operator table are made of, one family of states a module."""
