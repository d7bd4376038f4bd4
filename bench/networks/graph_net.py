"""The layers of the benchmark networks for Thalweg and TensorFlow (`tf` is either)."""

from .parameters import Parameters


def _pair(value):
    return (value, value) if isinstance(value, int) else value


class GraphNet:
    """Layers on NHWC images; every parameter is a variable, whose value is fed: the graph keeps no second copy.

    Attributes:
        updates: Operations that a training step runs too: the moving averages of batch normalization.
    """

    def __init__(self, tf, training):
        self.tf, self.training = tf, training
        self.parameters, self.updates, self.variables, self.statistics = Parameters(), [], [], []
        self.assignments = []
        self.multiplications = 0

    def variable(self, shape, kind):
        """The next trainable parameter."""
        array = self.parameters.make(shape, kind)
        fed = self.tf.placeholder(self.tf.float32, shape)
        variable = self.tf.Variable(fed, name=f"v{len(self.variables)}", use_resource=True)
        self.variables.append(variable)
        self.assignments.append((variable.initializer, fed, array))
        return variable

    def other_variables(self):
        """The graph's variables that are not parameters: statistics, slots."""
        names = {variable.name for variable in self.variables}
        return [variable for variable in self.tf.global_variables() if variable.name not in names]

    def initialize(self, sess, initializer):
        """Gives all variables their values; `initializer` is that of `other_variables`."""
        for assignment, fed, array in self.assignments:
            sess.run(assignment, {fed: array})
        sess.run(initializer)
        self.assignments.clear()
        self.parameters.arrays.clear()

    def _convolved(self, x, channels, size, stride, pad):
        height, width = _pair(size)
        rows, columns = _pair(pad)
        inputs = x.shape[3].value if hasattr(x.shape[3], "value") else x.shape[3]
        filters = self.variable((height, width, inputs, channels), "weight")
        padding = [[0, 0], [rows, rows], [columns, columns], [0, 0]] if rows or columns else "VALID"
        if stride == 1 and (rows, columns) == (height // 2, width // 2) and height % 2 and width % 2:
            padding = "SAME"  # The same layer, in TensorFlow's usual functions.
        y = self.tf.nn.conv2d(x, filters, strides=[1, stride, stride, 1], padding=padding)
        self.multiplications += int(y.shape[1]) * int(y.shape[2]) * channels * height * width * inputs
        return y

    def conv(self, x, channels, size, stride=1, pad=0, relu=True):
        y = self.tf.nn.bias_add(self._convolved(x, channels, size, stride, pad), self.variable((channels,), "zero"))
        return self.tf.nn.relu(y) if relu else y

    def bn_conv(self, x, channels, size, stride=1, pad=0, relu=True):
        tf = self.tf
        y = self._convolved(x, channels, size, stride, pad)
        scale, offset = self.variable((channels,), "one"), self.variable((channels,), "zero")
        mean = tf.Variable(tf.zeros([channels]), trainable=False, use_resource=True)
        variance = tf.Variable(tf.ones([channels]), trainable=False, use_resource=True)
        self.statistics += [mean, variance]
        if self.training:
            y, batch_mean, batch_variance = tf.nn.fused_batch_norm(y, scale, offset, epsilon=1e-3, is_training=True)
            self.updates.append(mean.assign_sub(0.1 * (mean - batch_mean)))
            self.updates.append(variance.assign_sub(0.1 * (variance - batch_variance)))
        else:
            y, _, _ = tf.nn.fused_batch_norm(y, scale, offset, mean, variance, epsilon=1e-3, is_training=False)
        return tf.nn.relu(y) if relu else y

    def max_pool(self, x, size, stride, pad=0):
        if pad and stride == 1:
            return self.tf.nn.max_pool(x, [1, size, size, 1], [1, 1, 1, 1], "SAME")
        if pad:  # Inputs are not negative: zeros are as good as the padding of the pool.
            x = self.tf.pad(x, [[0, 0], [pad, pad], [pad, pad], [0, 0]])
        return self.tf.nn.max_pool(x, [1, size, size, 1], [1, stride, stride, 1], "VALID")

    def avg_pool(self, x, size, stride, pad=0):
        return self.tf.nn.avg_pool(x, [1, size, size, 1], [1, stride, stride, 1], "SAME" if pad else "VALID")

    def global_pool(self, x):
        return self.tf.reduce_mean(x, [1, 2])

    def lrn(self, x):
        return self.tf.nn.lrn(x, 2, bias=1.0, alpha=2e-5, beta=0.75)

    def concat(self, parts):
        return self.tf.concat(parts, 3)

    def add_relu(self, x, y):
        return self.tf.nn.relu(x + y)

    def flatten(self, x):
        # Channels first, as PyTorch flattens: the next layer's weights are then the same.
        x = self.tf.transpose(x, [0, 3, 1, 2]) if int(x.shape[1]) > 1 else x
        return self.tf.reshape(x, [-1, int(x.shape[1]) * int(x.shape[2]) * int(x.shape[3])])

    def dense(self, x, size, relu=True):
        weights = self.variable((int(x.shape[1]), size), "weight")
        self.multiplications += int(x.shape[1]) * size
        y = self.tf.nn.bias_add(self.tf.matmul(x, weights), self.variable((size,), "zero"))
        return self.tf.nn.relu(y) if relu else y
