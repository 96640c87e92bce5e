"""Hosts whose one guest is the host itself: the namespace in which its virtual switch would be."""
