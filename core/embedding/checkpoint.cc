// Checkpoints of embedding tables: chains of segments, their links, their merging, and restoring.
#include "embedding/checkpoint.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <set>

#include "checkpoint/bundle.h"
#include "embedding/segment_file.h"
#include "io/files.h"
#include "random/entropy.h"
#include "thread/background_pace.h"

namespace thalweg::embedding {
namespace {

// As many files, or as many bytes of changes in proportion to the whole: then they are merged.
constexpr size_t kMostSegments = 16;

std::string hexadecimal(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(number));
  return text;
}

std::string file_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }
// The part of a segment's name that does not change with the checkpoint it belongs to.
std::string id_of(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// Segments of a checkpoint are `prefix.rows-<table>-<number>`.
std::string stem_of(const std::string& key) { return "rows-" + hexadecimal(fingerprint64(key)) + "-"; }

std::string joined(const std::vector<Segment>& chain) {
  std::string out;
  for (const Segment& segment : chain)
    out += cat(id_of(segment.path), "\t", segment.bytes, "\t", segment.rows, "\t", segment.removed, "\t",
               segment.full ? 1 : 0, "\n");
  return out;
}

std::vector<Segment> parsed(const std::string& list, const std::string& prefix) {
  std::vector<Segment> out;
  for (size_t at = 0; at < list.size();) {
    size_t end = std::min(list.find('\n', at), list.size());
    Segment segment;
    char id[128];
    long long bytes, rows, removed;
    int full;
    if (std::sscanf(list.substr(at, end - at).c_str(), "%127[^\t]\t%lld\t%lld\t%lld\t%d", id, &bytes, &rows, &removed,
                    &full) != 5 ||
        std::string_view(id).find('/') != std::string_view::npos)
      fail(Code::data_loss, "checkpoint ", prefix, " has a list of files with rows that makes no sense");
    out.push_back({prefix + "." + id, bytes, rows, removed, full != 0, false});
    at = end + 1;
  }
  if (out.empty() || !out.front().full)
    fail(Code::data_loss, "checkpoint ", prefix, " has a list of files with rows that does not begin with all of them");
  return out;
}

// The list under `key` in the bundle that is there now; empty if there is none.
std::string present_list(const std::string& prefix, const std::string& key) {
  try {
    auto reader = open_checkpoint(prefix);
    if (!reader->has(key)) return {};
    return *reader->read({{key, "", DType::string}})[0].strings();
  } catch (const Error&) {
    return {};
  }
}

// Removes files of this table and prefix that neither the bundle that is there nor the new one refers to.
void remove_leftovers(const std::string& prefix, const std::string& key, const std::vector<Segment>& chain) {
  std::set<std::string> kept;
  for (const Segment& segment : chain) kept.insert(file_of(segment.path));
  if (const std::string list = present_list(prefix, key); !list.empty())
    for (const Segment& segment : parsed(list, prefix)) kept.insert(file_of(segment.path));
  const std::string folder = directory_of(prefix), start = file_of(prefix) + "." + stem_of(key);
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) return;
  std::vector<std::string> removed;
  while (dirent* entry = readdir(directory)) {
    std::string name = entry->d_name;
    // Temporary files of a writer have longer names; their own clean-up takes care of them.
    if (name.starts_with(start) && name.size() == start.size() + 16 && !kept.contains(name)) removed.push_back(name);
  }
  closedir(directory);
  for (const std::string& name : removed) unlink((folder + "/" + name).c_str());
}

// Gives the files of a chain names under another prefix; false if that is impossible. A merged file has no checkpoint
// that would take it along when it goes: it gives up its first name.
bool link_chain(std::vector<Segment>& chain, const std::string& prefix) {
  for (Segment& segment : chain) {
    const std::string path = prefix + "." + id_of(segment.path);
    if (path == segment.path) {
      if (!exists(path)) return false;
    } else {
      if (link(segment.path.c_str(), path.c_str()) != 0 && !(errno == EEXIST && exists(segment.path))) return false;
      if (segment.merged) unlink(segment.path.c_str());
    }
    segment.path = path;
    segment.merged = false;
  }
  return true;
}

void remove_merged(const std::vector<Segment>& chain) {
  for (const Segment& segment : chain)
    if (segment.merged) unlink(segment.path.c_str());
}

bool should_merge(const std::vector<Segment>& chain) {
  if (chain.size() < 3) return false;
  int64_t changes = 0;
  for (size_t i = 1; i < chain.size(); ++i) changes += chain[i].bytes;
  return chain.size() >= kMostSegments || changes > chain.front().bytes;
}

// Merges a chain in the background. Its files stay: the chain of the table changes only if nobody changed it meanwhile.
void start_merging(const std::shared_ptr<EmbeddingTable>& table, const std::string& prefix, const std::string& stem) {
  std::vector<Segment> chain = table->chain;
  table->run_in_background([weak = std::weak_ptr(table), chain, prefix, stem] {
    std::vector<std::string> paths;
    for (const Segment& segment : chain) paths.push_back(segment.path);
    Segment merged{prefix + "." + stem + hexadecimal(entropy64()), 0, 0, 0, true, true};
    bool unfit = false;
    try {
      uint64_t used = 0;
      BackgroundPace pace([&] {
        const auto table = weak.lock();
        return table && table->in_use_since(&used);
      });
      merged.rows = merge_segments(paths, merged.path, [&] { pace.rest(); });
      merged.bytes = static_cast<int64_t>(ReadableFile(merged.path).size());
    } catch (const Error& error) {
      // A checkpoint that was removed meanwhile, or a full disk: the chain goes on as it is. One that is damaged, or
      // has rows of several forms, does not.
      if (error.code() != Code::data_loss) return;
      unfit = true;
    }
    auto table = weak.lock();
    if (!table) return;
    std::lock_guard lock(table->saving);
    std::vector<Segment>& now = table->chain;
    bool same = now.size() >= chain.size();
    for (size_t i = 0; same && i < chain.size(); ++i) same = id_of(now[i].path) == id_of(chain[i].path);
    if (unfit || !same) {
      if (!unfit) remove_merged({merged});
      if (same) now.clear();
      return;
    }
    now.erase(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(chain.size()));
    now.insert(now.begin(), merged);
  });
}

}  // namespace

std::string list_name(const std::string& name, int64_t part, int64_t parts) {
  char suffix[48];
  std::snprintf(suffix, sizeof(suffix), "/rows-%05d-of-%05d", static_cast<int>(part), static_cast<int>(parts));
  return name + suffix;
}

std::string save_checkpoint(const std::shared_ptr<EmbeddingTable>& table, const std::string& prefix,
                            const std::string& key, bool full) {
  std::lock_guard lock(table->saving);
  const std::string stem = stem_of(key);
  std::vector<Segment> chain = table->chain;
  if (full || !link_chain(chain, prefix)) {
    remove_merged(table->chain);
    chain.clear();
  }
  table->chain.clear();  // Until the new segment is there.
  const Segment saved = table->save(chain.empty(), prefix + "." + stem + hexadecimal(entropy64()));
  if (saved.full) chain.clear();
  chain.push_back(saved);
  table->chain = chain;
  sync_directory(directory_of(prefix));
  remove_leftovers(prefix, key, chain);
  if (should_merge(chain)) start_merging(table, prefix, stem);
  return joined(chain);
}

namespace {

// The lists of all parts under a name; empty if there are none.
std::vector<std::vector<Segment>> lists_of(CheckpointReader& reader, const std::string& prefix,
                                           const std::string& name) {
  std::vector<CheckpointReader::Request> requests;
  int expected = 0;
  for (const std::string& found : reader.names()) {
    int part, parts, length = 0;
    if (!found.starts_with(name + "/rows-")) continue;
    if (std::sscanf(found.c_str() + name.size(), "/rows-%5d-of-%5d%n", &part, &parts, &length) != 2 ||
        name.size() + static_cast<size_t>(length) != found.size())
      continue;
    if (expected != 0 && parts != expected)
      fail(Code::data_loss, "checkpoint ", prefix, " has rows of '", name, "' in ", expected, " and in ", parts,
           " parts");
    expected = parts;
    requests.push_back({found, "", DType::string});
  }
  if (static_cast<int>(requests.size()) != expected)
    fail(Code::data_loss, "checkpoint ", prefix, " has ", requests.size(), " of the ", expected, " parts of '", name,
         "'");
  std::vector<std::vector<Segment>> out;
  if (requests.empty()) return out;
  for (const Tensor& list : reader.read(requests)) out.push_back(parsed(*list.strings(), prefix));
  return out;
}

// Some rows of a tensor with one row for each key.
template <typename T>
void copy_rows(const Tensor& from, std::span<const int64_t> rows, T* to) {
  const int64_t width = from.num_elements() / std::max<int64_t>(from.dim(0), 1);
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(from.flat<T>() + rows[i] * width, width, to + static_cast<int64_t>(i) * width);
}

// Rows as tensors, as an export, another program or TensorFlow wrote them.
void restore_tensors(EmbeddingTable& table, CheckpointReader& reader, const std::string& name, int64_t part,
                     int64_t parts) {
  const std::string start = name + "-slot-";
  std::vector<CheckpointReader::Request> wanted{{name + "-keys", "", table.options().key}, {name + "-values", "", {}}};
  std::vector<Slot> slots;
  for (const std::string& found : reader.names()) {
    if (!found.starts_with(start)) continue;
    wanted.push_back({found, "", DType::float32});
    slots.push_back({found.substr(start.size()), 0, Slot::Kind::constant, true});
  }
  const bool counted = reader.has(name + "-counts");
  if (counted) wanted.push_back({name + "-counts", "", DType::int64});
  const std::vector<Tensor> read = reader.read(wanted);
  const Tensor &keys = read[0], &values = read[1];
  const int64_t dim = table.options().dim;
  require(values.dtype() == DType::float32 && values.rank() == 2 && keys.rank() == 1 && values.dim(0) == keys.dim(0) &&
              values.dim(1) == dim,
          "embedding table '", table.name(), "' has rows of ", dim, " floats; the checkpoint has keys ", keys.shape(),
          " and values ", values.dtype(), values.shape());
  for (size_t i = 2; i < read.size(); ++i) {
    const bool is_slot = i < 2 + slots.size();
    require(read[i].shape() == (is_slot ? values.shape() : keys.shape()), "embedding table '", table.name(),
            "' has the tensor ", wanted[i].name, read[i].shape(), " in the checkpoint, beside keys ", keys.shape(),
            " and values ", values.shape());
  }
  std::vector<int64_t> mine;
  for (int64_t i = 0; i < keys.num_elements(); ++i)
    if (parts <= 1 || part_of(key_at(keys, i), parts) == part) mine.push_back(i);
  const auto n = static_cast<int64_t>(mine.size());
  EmbeddingTable::Rows rows{Tensor(keys.dtype(), Shape{n}), Tensor(DType::float32, Shape{n, dim}),
                            Tensor(DType::int64, Shape{n}), Tensor(DType::int64, Shape{n}),
                            Tensor(DType::float32, Shape{static_cast<int64_t>(slots.size()), n, dim})};
  std::fill_n(rows.counts.flat<int64_t>(), n, 0);
  std::fill_n(rows.steps.flat<int64_t>(), n, 0);
  if (keys.dtype() == DType::string)
    for (int64_t i = 0; i < n; ++i) rows.keys.strings()[i] = keys.strings()[mine[static_cast<size_t>(i)]];
  else
    copy_rows(keys, mine, rows.keys.flat<int64_t>());
  copy_rows(values, mine, rows.values.flat<float>());
  for (size_t s = 0; s < slots.size(); ++s)
    copy_rows(read[2 + s], mine, rows.slots.flat<float>() + static_cast<int64_t>(s) * n * dim);
  if (counted) copy_rows(read.back(), mine, rows.counts.flat<int64_t>());
  table.initialize();
  table.import_rows(rows, slots);
}

}  // namespace

int64_t restore_checkpoint(const std::shared_ptr<EmbeddingTable>& table, const std::string& prefix,
                           const std::string& name, int64_t part, int64_t parts, bool follow) {
  auto reader = open_checkpoint(prefix);
  auto lists = lists_of(*reader, prefix, name);
  std::string average;
  if (lists.empty() && reader->has(name + "-keys") && reader->has(name + "-values")) {
    restore_tensors(*table, *reader, name, part, parts);
    return 1;
  }
  if (lists.empty() && name.find('/') != std::string::npos) {
    // The moving average of a table is in the files of the table.
    average = name.substr(name.rfind('/') + 1);
    lists = lists_of(*reader, prefix, name.substr(0, name.rfind('/')));
  }
  if (lists.empty())
    fail(Code::not_found, "checkpoint ", prefix, " has neither files with rows of '", name, "' (", name,
         "/rows-...) nor its rows as tensors (", name, "-keys and ", name, "-values)");
  std::vector<std::string> paths, ids;
  for (const auto& list : lists) {
    for (const Segment& segment : list) {
      if (!exists(segment.path))
        fail(Code::data_loss, "checkpoint ", prefix, " lacks the file ", segment.path, " with rows of '", name, "'");
      paths.push_back(segment.path);
      ids.push_back(id_of(segment.path));
    }
  }
  std::vector<std::string> missing, known;
  {
    std::lock_guard lock(table->saving);
    known = table->loaded;
  }
  bool continues = follow && average.empty() && !known.empty() && table->initialized();
  if (continues) {
    const std::set<std::string> before(known.begin(), known.end()), after(ids.begin(), ids.end());
    for (const std::string& id : known) continues &= after.contains(id);
    for (size_t i = 0; i < ids.size(); ++i)
      if (!before.contains(ids[i])) missing.push_back(paths[i]);
    // A file with all rows among the new ones has no removals: it starts over.
    size_t at = 0;
    for (const auto& list : lists)
      for (const Segment& segment : list) continues &= before.contains(ids[at++]) || !segment.full;
  }
  if (!continues) missing = paths;
  if (!missing.empty()) table->load(missing, part, parts, !continues, average);
  std::lock_guard lock(table->saving);
  table->loaded = ids;
  const bool same_rows = average.empty() && static_cast<int64_t>(lists.size()) == std::max<int64_t>(parts, 1);
  table->chain = same_rows && !follow ? lists[static_cast<size_t>(part)] : std::vector<Segment>{};
  return static_cast<int64_t>(missing.size());
}

}  // namespace thalweg::embedding
