"""Where nodes should go: costs, described machines, a simulator of placed steps, and strategies that use them."""
