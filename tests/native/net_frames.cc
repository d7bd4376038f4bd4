// Frames as bytes: round trips in pieces of any size, and lies in headers and descriptors.
#include "memory/allocator.h"
#include "sockets.h"

namespace {

using namespace native_tests;

Frame sample() {
  Frame frame{FrameKind::run, 3, 0x123456789abcdef0, 77, "a body\0 with a zero", {}};
  Tensor strings(DType::string, Shape{2, 2});
  strings.strings()[0] = "one";
  strings.strings()[2] = std::string(5000, 'x');
  strings.strings()[3] = std::string("\0\xff", 2);
  frame.tensors = {counting(6, Shape{2, 3}),
                   Tensor(),
                   strings,
                   Tensor(DType::float32, Shape{4, 0, 1ll << 40}),
                   Tensor::scalar<double>(1.5),
                   counting(3, Shape{1, 1, 1, 1, 3})};
  return frame;
}

void check_same(const Frame& a, const Frame& b) {
  CHECK(a.kind == b.kind);
  CHECK_EQUAL(a.flags, b.flags);
  CHECK_EQUAL(a.step, b.step);
  CHECK_EQUAL(a.number, b.number);
  CHECK_EQUAL(a.body, b.body);
  CHECK_EQUAL(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) native_tests::check_same(a.tensors[i], b.tensors[i]);
}

TEST(frames_arrive_as_they_were_sent_in_pieces_of_any_size) {
  const Frame frame = sample();
  for (size_t step : {size_t{1}, size_t{7}, size_t{31}, size_t{33}, size_t{1000}, size_t{1} << 16}) {
    const std::string bytes = bytes_of(frame, step);
    CHECK_EQUAL(bytes, bytes_of(frame));
    const auto found = frames_of(bytes + bytes + bytes, step);
    CHECK_EQUAL(found.size(), 3u);
    for (const Frame& each : found) check_same(each, frame);
  }
}

TEST(a_frame_may_have_nothing_in_it) {
  const auto found = frames_of(bytes_of({FrameKind::heartbeat, 0, 0, 0, {}, {}}), 1);
  CHECK_EQUAL(found.size(), 1u);
  CHECK(found[0].body.empty() && found[0].tensors.empty());
}

TEST(large_tensors_arrive_whole) {
  Frame frame{FrameKind::tensor, 0, 1, 2, "b", {counting(3 << 20), counting(5), counting(1 << 18)}};
  const auto found = frames_of(bytes_of(frame) + bytes_of(frame));
  CHECK_EQUAL(found.size(), 2u);
  for (const Frame& each : found) check_same(each, frame);
}

TEST(a_frame_may_have_more_tensors_than_the_system_takes_at_once) {
  Frame frame{FrameKind::done, 0, 1, 2, "body", {}};
  for (int i = 0; i < 5000; ++i) frame.tensors.push_back(counting(i % 5));
  const auto found = frames_of(bytes_of(frame), 4099);
  CHECK_EQUAL(found.size(), 1u);
  check_same(found[0], frame);
}

TEST(a_frame_with_too_many_tensors_is_not_sent) {
  Frame frame{FrameKind::done, 0, 1, 2, {}, std::vector<Tensor>(1 << 16)};
  CHECK_FAILS(Code::invalid_argument, "65536 tensors", bytes_of(frame));
}

TEST(resource_handles_stay_in_their_task) {
  Frame frame{FrameKind::done, 0, 1, 2, {}, {Tensor(DType::resource, Shape{})}};
  CHECK_FAILS(Code::invalid_argument, "belongs to its task", bytes_of(frame));
}

// A header and what follows it, with anything in them.
struct Lie {
  FrameHeader header{0, static_cast<uint8_t>(FrameKind::tensor), 0, 1, 0, 0, 0};
  std::string head;
  Lie& tensor(DType dtype, std::vector<int64_t> dims, Place place = Place::in_frame) {
    return tensor(static_cast<uint8_t>(dtype), static_cast<uint8_t>(dims.size()), static_cast<uint8_t>(place), dims);
  }
  Lie& tensor(uint8_t type, uint8_t rank, uint8_t place, const std::vector<int64_t>& dims) {
    Writer writer(head);
    writer.put(type).put(rank).put(place).put(uint8_t{0});
    for (int64_t dim : dims) writer.put(dim);
    return *this;
  }
  std::string bytes() {
    if (header.length == 0) header.length = static_cast<uint32_t>(head.size());
    std::string all(sizeof header, '\0');
    std::memcpy(all.data(), &header, sizeof header);
    return all + head;
  }
};

// The bytes are refused, and no memory was taken for tensors.
void check_refused(Lie lie, const std::string& text, Code code = Code::invalid_argument) {
  Allocator& memory = Allocator::cpu();
  const int64_t before = memory.bytes_in_use();
  memory.reset_peak();
  CHECK_FAILS(code, text, frames_of(lie.bytes()));
  CHECK(memory.peak_bytes() - before < (1 << 20));
}

TEST(unknown_kinds_are_refused) {
  for (int kind : {0, 10, 255}) {
    Lie lie;
    lie.header.kind = static_cast<uint8_t>(kind);
    check_refused(lie, "unknown kind");
  }
}

TEST(lengths_beyond_the_limits_are_refused_at_the_header) {
  Lie lie;
  lie.header.length = 0xffffffff;
  check_refused(lie, "larger than allowed");
  lie.header.length = 1;
  lie.header.elements = ~uint64_t{0};
  check_refused(lie, "larger than allowed");
  Limits limits;
  limits.head = 100;
  limits.elements = 1000;
  const Frame small{FrameKind::tensor, 0, 1, 2, "b", {counting(250)}};
  CHECK_EQUAL(frames_of(bytes_of(small), 1 << 16, nullptr, limits).size(), 1u);
  const Frame large{FrameKind::tensor, 0, 1, 2, "b", {counting(251)}};
  CHECK_FAILS(Code::invalid_argument, "larger than allowed", frames_of(bytes_of(large), 1 << 16, nullptr, limits));
  const Frame wordy{FrameKind::tensor, 0, 1, 2, std::string(101, 'x'), {}};
  CHECK_FAILS(Code::invalid_argument, "larger than allowed", frames_of(bytes_of(wordy), 1 << 16, nullptr, limits));
}

TEST(shapes_that_cannot_be_are_refused) {
  for (int64_t dim : {int64_t{-1}, INT64_MIN}) {
    Lie lie;
    lie.header.elements = 4;
    check_refused(lie.tensor(DType::float32, {dim}), "");
  }
  Lie product;
  product.header.elements = 4;
  check_refused(product.tensor(DType::float32, {1ll << 40, 1ll << 40}), "");
  Lie rank;
  check_refused(rank.tensor(1, 255, 0, std::vector<int64_t>(255, 1)), "rank 255");
}

TEST(counts_of_bytes_that_are_not_those_of_the_tensors_are_refused) {
  Lie few;
  few.header.elements = 3;
  check_refused(few.tensor(DType::float32, {1}), "announces 3 bytes");
  Lie many;
  many.header.elements = 5;
  check_refused(many.tensor(DType::float32, {1}), "1 more");
  Lie none;
  none.header.elements = uint64_t{1} << 37;
  check_refused(none.tensor(DType::invalid, {}), "more");
  // The first tensor is true and large, the second one is not.
  Lie second;
  second.header.tensors = 2;
  second.header.elements = uint64_t{8} << 30;
  check_refused(second.tensor(DType::float32, {1ll << 31}).tensor(DType::float32, {1}), "announces");
}

TEST(descriptors_that_end_early_are_refused) {
  Lie missing;
  missing.header.tensors = 65535;
  missing.head = "abc";
  check_refused(missing, "ends early");
  Lie dims;
  check_refused(dims.tensor(1, 4, 0, {1, 2, 3}), "ends early");
}

TEST(element_types_that_no_tensor_can_be_sent_as_are_refused) {
  for (int type : {20, 24, 66, 101, 200, 255}) {
    Lie lie;
    lie.header.elements = 1;
    check_refused(lie.tensor(static_cast<uint8_t>(type), 0, 0, {}), "cannot be sent");
  }
}

TEST(strings_that_are_not_there_are_refused) {
  Lie many;
  check_refused(many.tensor(DType::string, {1ll << 40}, Place::in_descriptor), "shorter than that");
  Lie place;
  check_refused(place.tensor(DType::string, {1}, Place::in_frame), "wrong place");
  Lie length;
  length.tensor(DType::string, {1}, Place::in_descriptor);
  Writer(length.head).put(uint32_t{1000}).put(uint32_t{0});
  check_refused(length, "ends early");
}

TEST(unknown_places_and_loans_without_shared_memory_are_refused) {
  Lie place;
  check_refused(place.tensor(DType::float32, {1}, static_cast<Place>(3)), "unknown place");
  Lie loan;
  loan.tensor(DType::float32, {1}, Place::shared_memory);
  Writer(loan.head).put(uint64_t{1}).put(uint64_t{0});
  check_refused(loan, "shares none");
}

TEST(a_closed_connection_is_told_from_an_idle_one) {
  auto [in, out] = socket_pair();
  FrameReader reader(nullptr);
  std::atomic<int64_t> bytes{0};
  CHECK(reader.read(out, [](Frame) {}, bytes));
  in = Socket();
  CHECK(!reader.read(out, [](Frame) {}, bytes));
}

}  // namespace
