// Names of collective operations, and their headers in frames.
#include "net/collective_call.h"

namespace thalweg::net {

const char* name_of(Collective kind) {
  switch (kind) {
    case Collective::reduce:
      return "reduce";
    case Collective::reduce_scatter:
      return "reduce-scatter";
    case Collective::gather:
      return "gather";
    case Collective::broadcast:
      return "broadcast";
    case Collective::barrier:
      return "barrier";
  }
  return "unknown";
}

void CollectiveHeader::put(Writer& writer) const {
  writer.put(kind).put(dtype).put(merge).put(static_cast<uint8_t>(divides)).put(static_cast<uint8_t>(is_root));
  writer.put(layout).put(static_cast<uint8_t>(shape.rank()));
  for (int64_t dim : shape) writer.put(dim);
}

CollectiveHeader CollectiveHeader::take(Parser& parser) {
  CollectiveHeader header;
  const auto kind = parser.take<uint8_t>(), dtype = parser.take<uint8_t>(), merge = parser.take<uint8_t>();
  require(kind >= 1 && kind <= static_cast<uint8_t>(Collective::barrier), "a frame has the unknown collective ",
          int{kind});
  require(dtype <= static_cast<uint8_t>(DType::uint64), "a frame has a collective of the type ", int{dtype});
  require(merge >= 1 && merge <= static_cast<uint8_t>(Merge::maximum), "a frame has the unknown merge_op ", int{merge});
  header.kind = static_cast<Collective>(kind);
  header.dtype = static_cast<DType>(dtype);
  header.merge = static_cast<Merge>(merge);
  header.divides = parser.take<uint8_t>() != 0;
  header.is_root = parser.take<uint8_t>() != 0;
  header.layout = parser.take<uint64_t>();
  const int rank = parser.take<uint8_t>();
  require(rank <= Shape::kMaxRank, "a frame has a tensor of rank ", rank);
  int64_t dims[Shape::kMaxRank];
  for (int i = 0; i < rank; ++i) dims[i] = parser.take<int64_t>();
  header.shape = Shape(std::span<const int64_t>(dims, static_cast<size_t>(rank)));
  return header;
}

}  // namespace thalweg::net
