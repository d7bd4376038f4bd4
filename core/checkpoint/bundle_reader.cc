// Reading a bundle: all pieces of all wanted tensors in parallel, each checksummed as it comes in; and merging bundles.
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "checkpoint/bundle.h"
#include "checkpoint/proto.h"
#include "io/crc32c.h"
#include "thread/parallel.h"

namespace thalweg {

// One stored value and where its bytes go.
struct BundleReader::Piece {
  Tensor tensor;      // Of the stored shape.
  std::string bytes;  // Of strings, to be decoded.
  const ReadableFile* file = nullptr;
  BundleEntry entry;
  std::string name;
  std::vector<uint32_t> crcs;  // One per chunk.

  char* target() { return tensor.dtype() == DType::string ? bytes.data() : static_cast<char*>(tensor.raw()); }
  void make_strings();
};

namespace {

constexpr uint64_t kReadChunk = 1 << 20;

std::string open_index(const std::string& prefix) {
  std::string path = index_path(prefix);
  try {
    return read_file(path);
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;
    fail(Code::not_found, "Failed to find any matching files for ", prefix, ": there is no ", path);
  }
}

}  // namespace

BundleReader::BundleReader(std::string prefix)
    : prefix_(std::move(prefix)), index_(index_path(prefix_)), table_(open_index(prefix_), index_) {
  std::string_view header = table_.find("");
  if (header.data() == nullptr) fail(Code::data_loss, index_, " is not the index of a checkpoint: it has no header");
  for (proto::Fields field(header, index_); field.next();) {
    if (field.field == 1) num_shards_ = static_cast<int>(field.number);
    if (field.field == 2 && field.number != 0)
      fail(Code::unimplemented, index_, " was written on a big-endian machine, this is a little-endian one");
    if (field.field != 3) continue;
    for (proto::Fields part(field.text, index_); part.next();) {
      if (part.field == 2 && part.number > 1)
        fail(Code::invalid_argument, index_, " needs a reader of version ", part.number, ", this one is of version 1");
    }
  }
  if (num_shards_ < 1 || num_shards_ > 99999)
    fail(Code::data_loss, index_, " says that it has ", num_shards_, " shards");
}

BundleEntry BundleReader::entry(const std::string& name) const {
  std::string_view found = name.empty() ? std::string_view{} : table_.find(name);
  if (found.data() == nullptr) fail(Code::not_found, "Key ", name, " not found in checkpoint ", prefix_);
  return BundleEntry::from_proto(found, index_);
}

CheckpointReader::Stored BundleReader::stored(const std::string& name) const {
  const BundleEntry found = entry(name);
  return {found.dtype, found.shape(index_)};
}

std::vector<std::string> BundleReader::names() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : table_.rows()) {
    if (!key.empty() && key[0] != '\0') out.push_back(key);
  }
  return out;
}

const ReadableFile& BundleReader::data(int shard) {
  std::unique_ptr<ReadableFile>& file = files_[shard];
  if (file == nullptr) file = std::make_unique<ReadableFile>(data_path(prefix_, shard, num_shards_));
  return *file;
}

void BundleReader::plan(const BundleEntry& entry, const Shape& shape, const std::string& name,
                        std::vector<Piece>& pieces) {
  if (entry.shard < 0 || entry.shard >= num_shards_)
    fail(Code::data_loss, index_, " puts ", name, " into shard ", entry.shard, " of ", num_shards_);
  const ReadableFile& file = data(entry.shard);
  if (entry.offset < 0 || entry.size < 0 || static_cast<uint64_t>(entry.offset) > file.size() ||
      static_cast<uint64_t>(entry.size) > file.size() - static_cast<uint64_t>(entry.offset))
    fail(Code::data_loss, file.path(), " is cut off: ", name, " should be ", entry.size, " bytes at offset ",
         entry.offset, ", the file has ", file.size(), " bytes");
  Piece piece;
  if (entry.dtype == DType::string) {
    // A length takes one byte at least: a false shape cannot ask for more memory than the file is long.
    if (shape.num_elements() > entry.size)
      fail(Code::data_loss, "corrupted ", index_, ": ", shape.num_elements(), " strings in ", entry.size, " bytes");
    piece.bytes.resize(static_cast<size_t>(entry.size));
  } else {
    size_t width = is_plain(entry.dtype) ? size_of(entry.dtype) : 0;
    if (width == 0) fail(Code::unimplemented, name, " in ", index_, " has an element type that cannot be read here");
    if (static_cast<uint64_t>(shape.num_elements()) > static_cast<uint64_t>(entry.size) / width ||
        static_cast<uint64_t>(shape.num_elements()) * width != static_cast<uint64_t>(entry.size))
      fail(Code::data_loss, "corrupted ", index_, ": ", name, " is ", entry.dtype, shape, " in ", entry.size, " bytes");
  }
  piece.tensor = Tensor(entry.dtype, shape);
  piece.file = &file;
  piece.entry = entry;
  piece.name = name;
  piece.crcs.resize((static_cast<uint64_t>(entry.size) + kReadChunk - 1) / kReadChunk);
  pieces.push_back(std::move(piece));
}

void BundleReader::run(std::vector<Piece>& pieces) {
  struct Chunk {
    Piece* piece;
    uint64_t index;
  };
  std::vector<Chunk> chunks;
  for (Piece& piece : pieces) {
    for (uint64_t i = 0; i < piece.crcs.size(); ++i) chunks.push_back({&piece, i});
  }
  std::atomic<int> failure{0};
  std::atomic<Piece*> failed{nullptr};
  parallel_for(static_cast<int64_t>(chunks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && failure.load(std::memory_order_relaxed) == 0; ++i) {
      Piece& piece = *chunks[i].piece;
      uint64_t at = chunks[i].index * kReadChunk;
      uint64_t size = std::min(kReadChunk, static_cast<uint64_t>(piece.entry.size) - at);
      int result = piece.file->read(piece.target() + at, size, static_cast<uint64_t>(piece.entry.offset) + at);
      if (result != 0) {
        failed.store(&piece);
        failure.store(result);
        return;
      }
      piece.crcs[chunks[i].index] = crc32c(piece.target() + at, size);
    }
  });
  if (int number = failure.load(); number != 0) {
    const std::string& path = failed.load()->file->path();
    if (number > 0) fail_with_errno(number, "read", path);
    fail(Code::data_loss, path, "; the file became shorter while it was read");
  }
  for (Piece& piece : pieces) {
    if (piece.tensor.dtype() == DType::string) {
      piece.make_strings();
      continue;
    }
    uint32_t crc = 0;
    uint64_t rest = static_cast<uint64_t>(piece.entry.size);
    for (uint32_t part : piece.crcs) {
      uint64_t size = std::min(kReadChunk, rest);
      crc = combine_crc32c(crc, part, size);
      rest -= size;
    }
    if (mask_crc(crc) != piece.entry.crc)
      fail(Code::data_loss, "Checksum does not match in ", piece.file->path(), " for ", piece.name, ": stored ",
           piece.entry.crc, ", calculated ", mask_crc(crc), " on the restored bytes");
  }
}

void BundleReader::Piece::make_strings() {
  proto::Reader reader(bytes, file->path());
  int64_t count = tensor.num_elements();
  std::vector<uint64_t> lengths(static_cast<size_t>(count));
  uint32_t crc = 0;
  uint64_t total = 0;
  for (uint64_t& length : lengths) {
    length = reader.varint();
    if (length > bytes.size() - total) reader.bad("strings that are longer than what is stored");
    total += length;
    crc = crc32c(&length, length <= UINT32_MAX ? 4 : 8, crc);
  }
  std::string_view stored = reader.bytes(4);
  if (mask_crc(crc) != proto::Reader(stored, file->path()).fixed32())
    fail(Code::data_loss, "The lengths of the strings of ", name, " do not match their checksum in ", file->path());
  crc = crc32c(stored.data(), 4, crc);
  crc = crc32c(reader.rest().data(), reader.rest().size(), crc);
  if (mask_crc(crc) != entry.crc)
    fail(Code::data_loss, "Checksum does not match in ", file->path(), " for ", name, ": stored ", entry.crc,
         ", calculated ", mask_crc(crc), " on the restored bytes");
  if (reader.rest().size() != total) reader.bad("another number of bytes than the strings have");
  for (int64_t i = 0; i < count; ++i) tensor.strings()[i] = reader.bytes(lengths[i]);
}

std::vector<Tensor> BundleReader::read(const std::vector<Request>& requests) {
  std::lock_guard lock(mutex_);
  struct Wanted {
    TensorSlice slice;
    std::vector<TensorSlice> sources;
    size_t first_piece;
  };
  std::vector<Piece> pieces;
  std::vector<Wanted> wanted;
  for (const Request& request : requests) {
    BundleEntry found = entry(request.name);
    const Shape full = found.shape(index_);
    const TensorSlice whole = wanted_slice({request.name, "", request.dtype}, {found.dtype, full});
    Wanted want{wanted_slice(request, {found.dtype, full}), {}, pieces.size()};
    if (found.slices.empty()) {
      want.sources.push_back(whole);
      plan(found, full, request.name, pieces);
    }
    uint64_t covered = 0;
    for (const TensorSlice& slice : found.slices) {
      if (slice.extents.size() != static_cast<size_t>(full.rank()))
        fail(Code::data_loss, "corrupted ", index_, ": a slice of ", request.name, " has another rank");
      TensorSlice known, shared;
      std::string_view stored = table_.find(slice_key(request.name, slice));
      if (stored.data() == nullptr)
        fail(Code::data_loss, index_, " lacks the slice ", slice.str(), " of ", request.name);
      BundleEntry part = BundleEntry::from_proto(stored, index_);
      try {
        known = slice.within(full);
      } catch (const Error& error) {
        fail(Code::data_loss, "corrupted ", index_, ": ", error.message());
      }
      if (part.dtype != found.dtype || !(part.shape(index_) == known.shape()) || !part.slices.empty())
        fail(Code::data_loss, "corrupted ", index_, ": the slice ", slice.str(), " of ", request.name, " is ",
             part.dtype, part.shape(index_));
      if (!known.intersect(want.slice, &shared)) continue;
      covered += static_cast<uint64_t>(shared.shape().num_elements());
      want.sources.push_back(known);
      plan(part, known.shape(), request.name, pieces);
    }
    require(found.slices.empty() || covered >= static_cast<uint64_t>(want.slice.shape().num_elements()),
            "the checkpoint ", prefix_, " does not have all parts of ", request.name, ": of the slice ",
            want.slice.str(), " only ", covered, " elements are there");
    wanted.push_back(std::move(want));
  }
  run(pieces);
  std::vector<Tensor> out;
  for (Wanted& want : wanted) {
    if (want.sources.size() == 1 && want.sources[0] == want.slice) {
      out.push_back(std::move(pieces[want.first_piece].tensor));
      continue;
    }
    Tensor result(entry(requests[out.size()].name).dtype, want.slice.shape());
    // Slices that overlap may hide a gap: never expose old memory.
    if (is_plain(result.dtype())) std::memset(result.raw(), 0, result.bytes());
    TensorSlice box;
    for (size_t i = 0; i < want.sources.size(); ++i) {
      if (want.sources[i].intersect(want.slice, &box))
        copy_box(pieces[want.first_piece + i].tensor, want.sources[i], result, want.slice, box);
    }
    out.push_back(std::move(result));
  }
  return out;
}

void merge_bundles(const std::vector<std::string>& prefixes, const std::string& destination, bool allow_missing) {
  BundleEntries merged;
  std::vector<std::string> data, indices;
  for (const std::string& prefix : prefixes) {
    if (allow_missing && !exists(index_path(prefix))) continue;
    BundleReader part(prefix);
    int first = static_cast<int>(data.size());
    for (int i = 0; i < part.num_shards(); ++i) {
      data.push_back(data_path(prefix, i, part.num_shards()));
      if (!exists(data.back())) fail(Code::not_found, data.back(), "; No such file or directory");
    }
    indices.push_back(part.index());
    for (const auto& [key, value] : part.table().rows()) {
      if (key.empty()) continue;
      BundleEntry entry = BundleEntry::from_proto(value, part.index());
      entry.shard += first;
      auto [found, is_new] = merged.try_emplace(key, entry);
      if (is_new) continue;
      BundleEntry& known = found->second;
      require(!known.slices.empty() && !entry.slices.empty() && known.dims == entry.dims && known.dtype == entry.dtype,
              "merging bundles with ", key, " in more than one of them");
      known.slices.insert(known.slices.end(), entry.slices.begin(), entry.slices.end());
    }
  }
  if (data.empty())
    fail(Code::invalid_argument, "there is nothing to merge into ", destination,
         ": none of the given checkpoints exists");
  for (auto& [key, entry] : merged) {
    if (!entry.slices.empty()) entry.shard = 0;
  }
  commit_bundle(destination, data, merged);
  for (const std::string& index : indices) unlink(index.c_str());
}

}  // namespace thalweg
