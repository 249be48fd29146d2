from hypothesis import settings

# Single examples can be slow on a busy machine, and a database of failures does not belong in the checkout.
settings.register_profile("icepack", deadline=None, database=None, max_examples=60)
settings.load_profile("icepack")
