// Reading and writing checkpoints of the old format.
#include "checkpoint/old_format.h"

#include <glob.h>

#include <bit>
#include <filesystem>

#include "checkpoint/shape_proto.h"
#include "io/files.h"
#include "io/tensor_proto.h"

namespace thalweg {
namespace {

// The field numbers of SavedTensorSlices and its parts.
constexpr int kMeta = 1, kData = 2, kTensor = 1, kVersions = 2;
constexpr int kName = 1, kShape = 2, kType = 3, kSlices = 4;
constexpr int kDataSlice = 2, kDataValues = 3;
constexpr int kVersion = 1;

std::vector<std::string> matching(const std::string& pattern) {
  glob_t found;
  std::vector<std::string> out;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return out;
}

template <typename T>
uint64_t bits_of(T value) {
  if constexpr (is_reduced_float<T>)
    return std::bit_cast<uint16_t>(value);
  else if constexpr (std::is_signed_v<T>)
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  else
    return static_cast<uint64_t>(value);
}

// A TensorProto with nothing but the repeated field of its type.
std::string values_proto(const Tensor& tensor) {
  std::string out, packed;
  const int field = tensor_proto::field_of(tensor.dtype());
  const int64_t count = tensor.num_elements();
  if (tensor.dtype() == DType::string) {
    for (int64_t i = 0; i < count; ++i) proto::put_bytes(out, field, tensor.strings()[i]);
    return out;
  }
  if (count == 0) return out;
  if (tensor_proto::has_fixed_width(tensor.dtype())) {
    proto::put_bytes(out, field, {static_cast<const char*>(tensor.raw()), tensor.bytes()});
    return out;
  }
  dispatch(tensor.dtype(), Join<NumbersAndBool, Quantized>{}, [&]<typename T>() {
    if constexpr (!is_complex<T>)
      for (int64_t i = 0; i < count; ++i) proto::put_varint(packed, bits_of(tensor.flat<T>()[i]));
  });
  proto::put_bytes(out, field, packed);
  return out;
}

}  // namespace

std::vector<std::string> old_format_files(const std::string& path) {
  if (path.empty()) return {};
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return {path};
  std::vector<std::string> found;
  if (path.find_first_of("?*[") != std::string::npos) found = matching(path);
  if (found.empty()) found = matching(path + "-?\?\?\?\?-of-?\?\?\?\?");
  return found;
}

OldFormatReader::OldFormatReader(std::vector<std::string> files) : files_(std::move(files)) {
  tables_.reserve(files_.size());
  for (size_t i = 0; i < files_.size(); ++i) {
    const Table& table = tables_.emplace_back(read_file(files_[i]), files_[i]);
    std::string_view header = table.find("");
    if (header.data() == nullptr)
      fail(Code::data_loss, files_[i], " is not a checkpoint of the old format: it has no header");
    for (proto::Fields part(header, files_[i]); part.next();) {
      if (part.field != kMeta) continue;
      for (proto::Fields meta(part.text, files_[i]); meta.next();)
        if (meta.field == kTensor) add(meta.text, i);
    }
  }
}

void OldFormatReader::add(std::string_view message, size_t file) {
  const std::string& path = files_[file];
  std::string name;
  std::vector<int64_t> dims;
  DType dtype = DType::invalid;
  std::vector<Part> parts;
  for (proto::Fields field(message, path); field.next();) {
    if (field.field == kName) name = field.text;
    if (field.field == kShape) dims = dims_from_proto(field.text, path);
    if (field.field == kType) dtype = dtype_from_number(field.number);
    if (field.field == kSlices) parts.push_back({TensorSlice::from_proto(field.text, path), file});
  }
  const Stored stored{dtype, checked_shape(dims, path)};
  if (dtype != DType::string && !is_plain(dtype))
    fail(Code::unimplemented, name, " in ", path, " has an element type that cannot be read here");
  auto [entry, is_new] = tensors_.try_emplace(name, Entry{stored, {}});
  Entry& known = entry->second;
  if (known.stored.dtype != stored.dtype || !(known.stored.shape == stored.shape))
    fail(Code::data_loss, "the files of a checkpoint disagree: ", name, " is ", stored.dtype, stored.shape, " in ",
         path, " and ", known.stored.dtype, known.stored.shape, " elsewhere");
  for (Part& part : parts) {
    if (part.slice.extents.size() != static_cast<size_t>(stored.shape.rank()))
      fail(Code::data_loss, "corrupted ", path, ": a slice of ", name, " has another rank");
    known.parts.push_back(std::move(part));
  }
}

CheckpointReader::Stored OldFormatReader::stored(const std::string& name) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) fail(Code::not_found, "Key ", name, " not found in checkpoint ", files_[0]);
  return found->second.stored;
}

std::vector<std::string> OldFormatReader::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : tensors_) out.push_back(name);
  return out;
}

Tensor OldFormatReader::value(const std::string& name, const Part& part, DType dtype, const Shape& shape) const {
  const std::string& path = files_[part.file];
  std::string_view row = tables_[part.file].find(slice_key(name, part.slice));
  if (row.data() == nullptr) fail(Code::data_loss, path, " lacks the slice ", part.slice.str(), " of ", name);
  std::string_view message;
  for (proto::Fields saved(row, path); saved.next();) {
    if (saved.field != kData) continue;
    for (proto::Fields data(saved.text, path); data.next();)
      if (data.field == kDataValues) message = data.text;
  }
  // A value takes a byte at least: a false shape cannot ask for more memory than the file is long.
  tensor_proto::Values values;
  if (!tensor_proto::read(message, dtype, values) || shape.num_elements() < 0 ||
      values.given(dtype) != static_cast<size_t>(shape.num_elements()))
    fail(Code::data_loss, "corrupted ", path, ": ", name, " is ", dtype, shape, ", and ", values.given(dtype),
         " values of it are stored");
  Tensor out(dtype, shape);
  tensor_proto::fill(values, out);
  return out;
}

std::vector<Tensor> OldFormatReader::read(const std::vector<Request>& requests) {
  std::vector<Tensor> out;
  for (const Request& request : requests) {
    const Stored found = stored(request.name);
    const TensorSlice wanted = wanted_slice(request, found);
    if (wanted.shape().num_elements() == 0) {
      out.emplace_back(found.dtype, wanted.shape());
      continue;
    }
    struct Piece {
      Tensor value;
      TensorSlice slice, shared;
    };
    std::vector<Piece> pieces;
    uint64_t covered = 0;
    for (const Part& part : tensors_.at(request.name).parts) {
      TensorSlice known, shared;
      try {
        known = part.slice.within(found.shape);
      } catch (const Error& error) {
        fail(Code::data_loss, "corrupted ", files_[part.file], ": ", error.message());
      }
      if (!known.intersect(wanted, &shared)) continue;
      pieces.push_back({value(request.name, part, found.dtype, known.shape()), known, shared});
      covered += static_cast<uint64_t>(shared.shape().num_elements());
    }
    // The stored parts are read before memory is taken for the whole tensor: the shape may be wrong.
    require(covered >= static_cast<uint64_t>(wanted.shape().num_elements()), "the checkpoint ", files_[0],
            " does not have all parts of ", request.name, ": of the slice ", wanted.str(), " only ", covered,
            " elements are there");
    if (pieces.size() == 1 && pieces[0].slice == wanted) {
      out.push_back(std::move(pieces[0].value));
      continue;
    }
    Tensor result(found.dtype, wanted.shape());
    // Slices that overlap may hide a gap: never expose old memory.
    if (is_plain(result.dtype())) std::memset(result.raw(), 0, result.bytes());
    for (const Piece& piece : pieces) copy_box(piece.value, piece.slice, result, wanted, piece.shared);
    out.push_back(std::move(result));
  }
  return out;
}

void OldFormatWriter::add(const std::string& name, const ShapeAndSlice& where, const Tensor& tensor) {
  require(tensor.dtype() != DType::resource && tensor.dtype() != DType::variant, "cannot save ", name, " of type ",
          tensor.dtype());
  Meta& meta = tensors_.try_emplace(name, Meta{where.shape, tensor.dtype(), {}}).first->second;
  require(meta.shape == where.shape && meta.dtype == tensor.dtype(), "Mismatching shapes or types of ", name, ": ",
          meta.dtype, meta.shape, " and ", tensor.dtype(), where.shape);
  require(where.slice.within(where.shape).shape() == tensor.shape(), "the slice ", where.slice.str(), " of ", name,
          " does not have the shape ", tensor.shape());
  std::string data, row;
  proto::put_bytes(data, kName, name);
  proto::put_bytes(data, kDataSlice, where.slice.to_proto());
  proto::put_bytes(data, kDataValues, values_proto(tensor));
  proto::put_bytes(row, kData, data);
  const bool is_new = rows_.emplace(slice_key(name, where.slice), std::move(row)).second;
  require(is_new, "the slice ", where.slice.str(), " of ", name, " is given twice");
  meta.slices.push_back(where.slice);
}

void OldFormatWriter::finish() {
  std::string meta, header, version;
  for (const auto& [name, tensor] : tensors_) {
    std::string entry;
    proto::put_bytes(entry, kName, name);
    proto::put_bytes(entry, kShape, dims_to_proto(tensor.shape.to_vector()));
    proto::put_number(entry, kType, static_cast<uint64_t>(tensor.dtype));
    for (const TensorSlice& slice : tensor.slices) proto::put_bytes(entry, kSlices, slice.to_proto());
    proto::put_bytes(meta, kTensor, entry);
  }
  proto::put_number(version, 1, kVersion);
  proto::put_bytes(meta, kVersions, version);
  proto::put_bytes(header, kMeta, meta);
  TableWriter table;
  table.add("", header);
  for (const auto& [key, value] : rows_) table.add(key, value);
  const std::string bytes = table.finish();
  PendingFile file(path_, false);
  file.append(bytes.data(), bytes.size());
  file.sync();
  file.rename_to(path_);
  sync_directory(directory_of(path_));
}

}  // namespace thalweg
