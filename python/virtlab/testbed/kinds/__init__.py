"""What a platform and a virtual switch are to this testbed, how each is found by its name, and the nouns that they
share.
"""
