"""What Kubernetes says: frozen values, decoded from the fields we read and no others.

The structs here are both what the edge decodes and what the core reads, so nothing is converted in
between. Quantities and selectors are parsed once, when the object is checked at the edge; a value
that cannot be read raises MalformedObject there and nowhere else. This room knows no other room but
errors.
"""
