"""Functions of elements as typed expressions: traced once, evaluated a block at a time, in registers on GPUs."""
