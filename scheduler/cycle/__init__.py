"""One pod and a view of the cluster go in, a decision comes out.

The cycle is a plain generator: it may pause to let the world be heard (Breathe), and is resumed;
its return value is the decision. It reads no clock, logs nothing and remembers nothing: the same
pod, view and seed give the same decision. It is handed a profile and never names a plugin.
"""
