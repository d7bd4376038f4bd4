"""What an op is: its signature, attributes, shape function, gradient and cost, in one registry."""
