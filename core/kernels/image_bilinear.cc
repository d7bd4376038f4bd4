// ResizeBilinear and its gradient.
#include "compute/images/resize.h"

namespace thalweg {
namespace {

REGISTER(kernel("ResizeBilinear").types("T", Pixels{}).make<Resize<2, bilinear_taps>>());
REGISTER(kernel("ResizeBilinearGrad").types("T", Floats{}).make<ResizeGrad<2, bilinear_taps, Floats>>());

}  // namespace
}  // namespace thalweg
