"""Names of `tensorflow.python.ops.variables` that are not public."""

from thalweg.state.variable import Variable

VariableV1 = RefVariable = Variable
