"""`tensorflow.python.tf2`: whether TensorFlow 2's behaviour was asked for. It never is."""


def enabled() -> bool:
    """Whether TensorFlow 2's behaviour is on."""
    return False


def disable() -> None:
    """Has no effect: it is off."""
