from hypothesis import settings

# Two busy cores make single examples slow; a database of failures does not belong into the checkout.
settings.register_profile("icepack", deadline=None, database=None, max_examples=60)
settings.load_profile("icepack")
