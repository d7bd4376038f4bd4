// SerialScope: while it lives, parallel_for on this thread runs serially: for kernels of which many run side by side.
#pragma once

namespace thalweg {

class SerialScope {
 public:
  SerialScope();
  ~SerialScope();
  SerialScope(const SerialScope&) = delete;

 private:
  bool before_;
};

}  // namespace thalweg
