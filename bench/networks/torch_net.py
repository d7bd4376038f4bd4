"""The layers of the benchmark networks for PyTorch: functions of parameters, so that they compile, too."""

import torch
import torch.nn.functional as F

from .parameters import Parameters


class TorchNet:
    """Layers on NCHW images. The first pass makes the parameters; `parameters.begin(tensors)` starts later passes."""

    def __init__(self, training):
        self.training, self.parameters = training, Parameters()
        self.statistics, self.next_statistic = [], 0
        self.first = True

    def begin(self, tensors):
        """Starts a pass with these parameters."""
        self.first, self.next_statistic = False, 0
        self.parameters.begin(tensors)

    def variable(self, shape, kind):
        """The next parameter: filters OIHW, weights of dense layers [in, out]."""
        if not self.first:
            return self.parameters.current()
        tensor = torch.from_numpy(self.parameters.make(shape, kind))
        return tensor.permute(3, 2, 0, 1).contiguous() if len(shape) == 4 else tensor

    def tensors(self):
        """All parameters made, as leaves."""
        made = [torch.from_numpy(a.copy()) for a in self.parameters.arrays]
        return [t.permute(3, 2, 0, 1).contiguous() if t.dim() == 4 else t for t in made]

    def _statistics(self, channels):
        if self.first:
            self.statistics.append((torch.zeros(channels), torch.ones(channels)))
        self.next_statistic += 1
        return self.statistics[self.next_statistic - 1]

    def _filters(self, x, channels, size):
        height, width = (size, size) if isinstance(size, int) else size
        return self.variable((height, width, x.shape[1], channels), "weight")

    def conv(self, x, channels, size, stride=1, pad=0, relu=True):
        filters = self._filters(x, channels, size)
        y = F.conv2d(x, filters, self.variable((channels,), "zero"), stride=stride, padding=pad)
        return F.relu(y) if relu else y

    def bn_conv(self, x, channels, size, stride=1, pad=0, relu=True):
        y = F.conv2d(x, self._filters(x, channels, size), stride=stride, padding=pad)
        scale, offset = self.variable((channels,), "one"), self.variable((channels,), "zero")
        mean, variance = self._statistics(channels)
        y = F.batch_norm(y, mean, variance, scale, offset, training=self.training, momentum=0.1, eps=1e-3)
        return F.relu(y) if relu else y

    def max_pool(self, x, size, stride, pad=0):
        return F.max_pool2d(x, size, stride, padding=pad)

    def avg_pool(self, x, size, stride, pad=0):
        return F.avg_pool2d(x, size, stride, padding=pad, count_include_pad=False)

    def global_pool(self, x):
        return x.mean((2, 3))

    def lrn(self, x):
        return F.local_response_norm(x, 5, alpha=1e-4, beta=0.75, k=1.0)

    def concat(self, parts):
        return torch.cat(parts, 1)

    def add_relu(self, x, y):
        return F.relu(x + y)

    def flatten(self, x):
        return x.flatten(1)

    def dense(self, x, size, relu=True):
        weights = self.variable((x.shape[1], size), "weight")
        y = torch.addmm(self.variable((size,), "zero"), x, weights)
        return F.relu(y) if relu else y
