"""Commands about a testbed that is kept between them."""
