// Entries of a bundle's index, writing a bundle, and the protocol that makes it visible in one instant.
#include "checkpoint/bundle.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "checkpoint/shape_proto.h"
#include "io/crc32c.h"

namespace thalweg {
namespace {

constexpr size_t kWriteChunk = 1 << 20;  // Checksummed and written while it is in the cache.

std::string index_bytes(const BundleEntries& entries, int num_shards) {
  std::string version, header;
  proto::put_number(version, 1, 1);  // The producer's version of the format.
  proto::put_number(header, 1, static_cast<uint64_t>(num_shards));
  proto::put_bytes(header, 3, version);
  TableWriter table;
  table.add("", header);
  for (const auto& [key, entry] : entries) table.add(key, entry.to_proto());
  return table.finish();
}

void write_index(const std::string& prefix, const BundleEntries& entries, int num_shards) {
  std::string bytes = index_bytes(entries, num_shards);
  PendingFile file(index_path(prefix), true);
  file.append(bytes.data(), bytes.size());
  file.sync();
  file.rename_to(index_path(prefix));
  sync_directory(directory_of(prefix));
}

// The number of shards in the name of a data file of the prefix; -1 for other files.
int shards_in_name(std::string_view file, const std::string& base) {
  int shard = 0, shards = 0, length = 0;
  std::string start = base + ".data-";
  if (!file.starts_with(start)) return -1;
  std::string rest(file.substr(start.size()));
  if (rest.size() != 14 || std::sscanf(rest.c_str(), "%5d-of-%5d%n", &shard, &shards, &length) != 2 || length != 14)
    return -1;
  return shards;
}

// Removes the data files of the prefix that belong to another number of shards.
void remove_other_shards(const std::string& prefix, int num_shards) {
  std::string directory = directory_of(prefix);
  std::string base = prefix.substr(prefix.rfind('/') + 1);
  DIR* listing = opendir(directory.c_str());
  if (listing == nullptr) return;
  std::vector<std::string> stale;
  while (dirent* entry = readdir(listing)) {
    int shards = shards_in_name(entry->d_name, base);
    if (shards >= 0 && shards != num_shards) stale.push_back(directory + "/" + entry->d_name);
  }
  closedir(listing);
  for (const std::string& path : stale) unlink(path.c_str());
}

bool any_exists(const std::string& prefix, int count, int num_shards) {
  for (int i = 0; i < count; ++i) {
    if (exists(data_path(prefix, i, num_shards))) return true;
  }
  return false;
}

// Gives the files their usual names, too; false if the file system has no links.
bool link_as(const std::string& prefix, int count, int from, int to) {
  for (int i = 0; i < count; ++i) {
    std::string target = data_path(prefix, i, to);
    unlink(target.c_str());
    if (link(data_path(prefix, i, from).c_str(), target.c_str()) != 0) return false;
  }
  return true;
}

}  // namespace

std::string BundleEntry::to_proto() const {
  std::string out;
  proto::put_number(out, 1, static_cast<uint64_t>(dtype));
  proto::put_bytes(out, 2, dims_to_proto(dims));
  proto::put_number(out, 3, static_cast<uint64_t>(shard));
  proto::put_number(out, 4, static_cast<uint64_t>(offset));
  proto::put_number(out, 5, static_cast<uint64_t>(size));
  if (crc != 0) {
    proto::put_varint(out, 6 << 3 | 5);
    proto::put_fixed32(out, crc);
  }
  for (const TensorSlice& slice : slices) proto::put_bytes(out, 7, slice.to_proto());
  return out;
}

BundleEntry BundleEntry::from_proto(std::string_view message, const std::string& what) {
  BundleEntry out;
  for (proto::Fields field(message, what); field.next();) {
    switch (field.field) {
      case 1:
        out.dtype = dtype_from_number(field.number);
        break;
      case 2:
        out.dims = dims_from_proto(field.text, what);
        break;
      case 3:
        out.shard = static_cast<int32_t>(field.number);
        break;
      case 4:
        out.offset = static_cast<int64_t>(field.number);
        break;
      case 5:
        out.size = static_cast<int64_t>(field.number);
        break;
      case 6:
        out.crc = static_cast<uint32_t>(field.number);
        break;
      case 7:
        out.slices.push_back(TensorSlice::from_proto(field.text, what));
        break;
      default:
        break;
    }
  }
  return out;
}

Shape BundleEntry::shape(const std::string& what) const { return checked_shape(dims, what); }

std::string index_path(const std::string& prefix) { return prefix + ".index"; }

std::string data_path(const std::string& prefix, int shard, int num_shards) {
  char suffix[64];
  std::snprintf(suffix, sizeof(suffix), ".data-%05d-of-%05d", shard, num_shards);
  return prefix + suffix;
}

void commit_bundle(const std::string& prefix, const std::vector<std::string>& data, const BundleEntries& entries) {
  std::string directory = directory_of(prefix);
  int count = static_cast<int>(data.size());
  DirectoryLock lock(directory);
  bool replacing = exists(index_path(prefix));
  // Without an index, data files of these names belong to no bundle.
  int staged = count;
  while (replacing && any_exists(prefix, count, staged)) ++staged;
  int renamed = 0;
  try {
    for (; renamed < count; ++renamed) rename_file(data[renamed], data_path(prefix, renamed, staged));
    sync_directory(directory);
    write_index(prefix, entries, staged);
  } catch (const Error&) {
    for (int i = 0; i < renamed; ++i) unlink(data_path(prefix, i, staged).c_str());
    throw;
  }
  if (staged != count && link_as(prefix, count, staged, count)) {
    try {
      sync_directory(directory);
      write_index(prefix, entries, count);
      staged = count;
    } catch (const Error&) {
      // The bundle is complete under its staged names.
    }
  }
  if (replacing) remove_other_shards(prefix, staged);
}

BundleWriter::BundleWriter(std::string prefix)
    : prefix_(std::move(prefix)),
      data_(
          [&] {
            require(!prefix_.empty() && prefix_.back() != '/',
                    "a checkpoint needs a prefix that is a path with a name, got '", prefix_, "'");
            mkdir(directory_of(prefix_).c_str(),
                  0777);  // If it cannot be made, creating the file fails.
            return data_path(prefix_, 0, 1);
          }(),
          false) {}

BundleEntry& BundleWriter::entry(const std::string& key, const Tensor& tensor) {
  require(!key.empty(), "a tensor in a checkpoint needs a name, got an empty one");
  auto [found, is_new] = entries_.try_emplace(key);
  require(is_new, "Adding duplicate key: ", key);
  found->second.dtype = tensor.dtype();
  found->second.dims = tensor.shape().to_vector();
  return found->second;
}

void BundleWriter::add(const std::string& name, const Tensor& tensor) { write(tensor, entry(name, tensor)); }

void BundleWriter::add_slice(const std::string& name, const ShapeAndSlice& where, const Tensor& tensor) {
  TensorSlice known = where.slice.within(where.shape);
  require(known.shape() == tensor.shape(), "Slice in shape_and_slice specification does not match the shape of the ",
          "tensor to save: ", known.shape(), ", tensor: ", tensor.shape(), " (", name, ")");
  if (known.shape() == where.shape) {
    add(name, tensor);
    return;
  }
  auto [found, is_new] = entries_.try_emplace(name);
  BundleEntry& whole = found->second;
  if (is_new) {
    require(!name.empty(), "a tensor in a checkpoint needs a name, got an empty one");
    whole.dtype = tensor.dtype();
    whole.dims = where.shape.to_vector();
  }
  require(is_new || !whole.slices.empty(), "Adding duplicate key: ", name);
  require(whole.dtype == tensor.dtype() && whole.dims == where.shape.to_vector(), "the slices of ", name,
          " disagree: one is part of ", whole.dtype, Shape(whole.dims), ", another of ", tensor.dtype(), where.shape);
  whole.slices.push_back(where.slice);
  write(tensor, entry(slice_key(name, where.slice), tensor));
}

void BundleWriter::write(const Tensor& tensor, BundleEntry& entry) {
  entry.offset = static_cast<int64_t>(data_.size());
  if (tensor.dtype() == DType::string) {
    write_strings(tensor, entry);
    return;
  }
  if (!is_plain(tensor.dtype()))
    fail(Code::unimplemented, "a tensor of type ", tensor.dtype(), " cannot be saved in a checkpoint");
  const char* at = static_cast<const char*>(tensor.raw());
  uint32_t crc = 0;
  for (size_t rest = tensor.bytes(); rest > 0;) {
    size_t size = std::min(rest, kWriteChunk);
    crc = crc32c(at, size, crc);
    data_.append(at, size);
    at += size;
    rest -= size;
  }
  entry.size = static_cast<int64_t>(tensor.bytes());
  entry.crc = mask_crc(crc);
}

// The lengths, a checksum of them, and then the bytes. The checksum of lengths is one of fixed-width numbers.
void BundleWriter::write_strings(const Tensor& tensor, BundleEntry& entry) {
  int64_t count = tensor.num_elements();
  uint32_t crc = 0;
  std::string lengths;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t size = tensor.strings()[i].size();
    proto::put_varint(lengths, size);
    crc = crc32c(&size, size <= UINT32_MAX ? 4 : 8, crc);
  }
  proto::put_fixed32(lengths, mask_crc(crc));
  crc = crc32c(lengths.data() + lengths.size() - 4, 4, crc);
  data_.append(lengths.data(), lengths.size());
  for (int64_t i = 0; i < count; ++i) {
    const std::string& text = tensor.strings()[i];
    crc = crc32c(text.data(), text.size(), crc);
    data_.append(text.data(), text.size());
  }
  entry.size = static_cast<int64_t>(data_.size()) - entry.offset;
  entry.crc = mask_crc(crc);
}

void BundleWriter::finish() {
  data_.sync();
  commit_bundle(prefix_, {data_.path()}, entries_);
  data_.forget();
}

}  // namespace thalweg
