"""torch's side: networks and layers that know neither scikit-learn nor skorch.

A member-wise module maps ``x`` of shape ``(n_rows, *features)``, shared by all members, or
``(n_members, n_rows, *features)``, rows of each member's own, to logits of shape
``(n_members, n_rows, n_classes)``.
"""
