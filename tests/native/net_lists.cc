// Lists of tensors in frames: round trips, what cannot be sent, and lies.
#include <unistd.h>

#include "lists.h"
#include "net/list_encoding.h"

namespace {

using namespace native_tests;

TEST(lists_arrive_as_they_were_sent) {
  const Frame frame{FrameKind::tensor, 0, 1, 2, "body", {nested_lists(), counting(4)}};
  for (size_t step : {size_t{1}, size_t{33}, size_t{1} << 16}) {
    const auto found = frames_of(bytes_of(frame) + bytes_of(frame), step);
    CHECK_EQUAL(found.size(), 2u);
    CHECK_EQUAL(found[1].body, "body");
    native_tests::check_same(found[1].tensors[1], frame.tensors[1]);
    const Tensor& variants = found[1].tensors[0];
    CHECK(variants.shape() == (Shape{2}));
    CHECK(variants.flat<ResourceHandle>()[1].resource == nullptr);
    const TensorList& outer = list_of(variants);
    CHECK(outer.dtype() == DType::variant && outer.length() == 2);
    const TensorList &numbers = list_of(outer.at(0)), &strings = list_of(outer.at(1));
    CHECK_EQUAL(numbers.length(), 1000000);
    CHECK_EQUAL(numbers.most(), 2000000);
    CHECK_EQUAL(numbers.element_shape().str(), "[2,?]");
    CHECK(!numbers.at(0).defined() && !numbers.at(999999).defined());
    native_tests::check_same(numbers.at(1), counting(6, Shape{2, 3}));
    CHECK(!strings.element_shape().known_rank);
    CHECK_EQUAL(strings.at(0).strings()[0], "text");
  }
}

void check_same_lists(const Tensor& found, const Tensor& expected) {
  const TensorList &a = list_of(found), &b = list_of(expected);
  CHECK_EQUAL(a.length(), b.length());
  for (int64_t i = 0; i < b.length(); ++i) {
    native_tests::check_same(a.at(i), b.at(i));
    CHECK(!a.at(i).borrowed());
  }
}

uint64_t head_length(const std::string& frame) {
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof header);
  return header.length;
}

TEST(large_elements_of_lists_come_after_the_head) {
  const Frame frame{FrameKind::tensor, 0, 1, 2, "body", {counting(3), large_lists(200), counting(4)}};
  const std::string bytes = bytes_of(frame, 100000);
  CHECK(head_length(bytes) < 50000);
  for (size_t step : {size_t{1000}, size_t{1} << 16}) {
    const auto found = frames_of(bytes + bytes, step);
    CHECK_EQUAL(found.size(), 2u);
    for (const Frame& each : found) {
      CHECK_EQUAL(each.body, "body");
      native_tests::check_same(each.tensors[0], frame.tensors[0]);
      check_same_lists(each.tensors[1], frame.tensors[1]);
      native_tests::check_same(each.tensors[2], frame.tensors[2]);
    }
  }
}

TEST(large_elements_of_lists_are_lent_and_given_back_at_once) {
  Loans lender(SharedArena::get(), nullptr, [](uint64_t) {});
  Loans borrower(nullptr, std::make_shared<PeerArena>(dup(SharedArena::get()->reading_fd())),
                 [&](uint64_t number) { lender.returned(number); });
  const Frame frame{FrameKind::tensor, 0, 1, 2, {}, {large_lists()}};
  const std::string bytes = bytes_of(frame, SIZE_MAX, &lender);
  CHECK(bytes.size() < 1000);
  CHECK_EQUAL(lender.outstanding(), 3u);
  const auto found = frames_of(bytes, 50, &borrower);
  CHECK_EQUAL(lender.outstanding(), 0u);
  check_same_lists(found.at(0).tensors[0], frame.tensors[0]);
}

TEST(a_list_that_cannot_be_sent_ends_its_loans) {
  Loans lender(SharedArena::get(), nullptr, [](uint64_t) {});
  Tensor variants(DType::variant, Shape{2});
  variants.flat<ResourceHandle>()[0] = large_lists().flat<ResourceHandle>()[0];
  auto bad = std::make_shared<TensorList>(DType::resource, PartialShape{});
  bad->push(Tensor(DType::resource, Shape{}));
  variants.flat<ResourceHandle>()[1].resource = bad;
  const Frame frame{FrameKind::tensor, 0, 1, 2, {}, {variants}};
  CHECK_FAILS(Code::invalid_argument, "belongs to its task", bytes_of(frame, SIZE_MAX, &lender));
  CHECK_EQUAL(lender.outstanding(), 0u);
}

void check_refused(const std::string& frame, const std::string& text, Loans* loans = nullptr, Limits limits = {}) {
  CHECK_FAILS(Code::invalid_argument, text, frames_of(frame, 1 << 16, loans, limits));
}

TEST(lies_about_elements_outside_of_descriptors_are_refused) {
  const std::string twelve(12, 'e');
  CHECK_EQUAL(frames_of(list_frame(list_head(1) + element_head(Place::in_frame, 3), twelve)).size(), 1u);
  check_refused(list_frame(list_head(1) + element_head(Place::in_frame, 4), twelve), "announces 12 bytes in all");
  check_refused(list_frame(list_head(1) + element_head(Place::in_frame, int64_t{1} << 40), twelve), "announces 12");
  check_refused(list_frame(list_head(1) + element_head(Place::in_frame, 2), twelve), "4 more than its tensors have");
  check_refused(list_frame(list_head(1) + element_head(Place(9), 3), twelve), "in the wrong place 9");
  check_refused(list_frame(list_head(1) + lent_element(3, 0)), "shares none");
  std::string strings = list_head(1) + element_head(Place::in_frame, 3);
  strings[12] = static_cast<char>(DType::string);
  check_refused(list_frame(strings, twelve), "in the wrong place");
}

TEST(a_list_copies_no_more_than_it_was_lent_in_all) {
  const size_t size = SharedArena::get()->size();
  Loans borrower(nullptr, std::make_shared<PeerArena>(dup(SharedArena::get()->reading_fd())), [](uint64_t) {});
  Limits limits;
  limits.elements = 4000;
  const std::string all = lent_element(500, 4096);
  CHECK_EQUAL(frames_of(list_frame(list_head(2) + all + all), 1 << 16, &borrower, limits).size(), 1u);
  check_refused(list_frame(list_head(3) + all + all + all), "more than 4000 bytes", &borrower, limits);
  check_refused(list_frame(list_head(1) + lent_element(1, size)), "not in its memory", &borrower);
  check_refused(list_frame(list_head(1) + lent_element(4, 4)), "not in its memory", &borrower);
  const auto half = lent_element(static_cast<int64_t>(size / 8) + 1, 0);
  check_refused(list_frame(list_head(2) + half + half), cat("more than ", size, " bytes"), &borrower);
}

struct Something : Resource {
  const char* kind() const override { return "something"; }
};

TEST(other_variants_stay_in_their_task) {
  Tensor variant(DType::variant, Shape{});
  variant.flat<ResourceHandle>()->resource = std::make_shared<Something>();
  const Frame frame{FrameKind::tensor, 0, 1, 2, {}, {variant}};
  CHECK_FAILS(Code::unimplemented, "holds something belongs to its task", bytes_of(frame));
}

void check_lie(const std::string& bytes, const Shape& shape, const std::string& text) {
  Parser parser(bytes);
  IncomingElements elements(nullptr, Limits(), 0);
  CHECK_FAILS(Code::invalid_argument, text, take_variants(parser, shape, elements));
}

// A list of float32 scalars of which `stored` are announced.
std::string head(int64_t length, uint64_t stored, DType dtype = DType::float32) {
  std::string bytes;
  Writer(bytes).put(uint64_t{1}).put(dtype).put(uint8_t{1}).put(uint8_t{0}).put(length).put(int64_t{-1}).put(stored);
  return bytes;
}

TEST(lies_about_lists_are_refused) {
  check_lie("", Shape{int64_t{1} << 40}, "is shorter");
  check_lie(std::string(8, '\7'), Shape{}, "unknown mark");
  check_lie(head(1 << 20, 1 << 20), Shape{}, "is shorter");
  check_lie(head(-1, 0), Shape{}, "a list of -1 elements");
  check_lie(head(int64_t{1} << 31, 0), Shape{}, "elements");
  check_lie(head(1, 2) + std::string(64, '\0'), Shape{}, "of which 2");
  for (DType dtype : {DType::invalid, DType::resource, DType(99)})
    check_lie(head(1, 0, dtype), Shape{}, "which cannot be sent");
  std::string element = head(1, 1);
  Writer(element).put(uint64_t{1}).put(uint8_t{1}).put(Place::in_descriptor).put(int64_t{1} << 40);
  check_lie(element, Shape{}, "is shorter");
}

TEST(lists_nested_too_deeply_are_refused) {
  std::string bytes;
  for (int i = 0; i < 100000; ++i) {
    bytes += head(1, 1, DType::variant);
    Writer(bytes).put(uint64_t{1}).put(uint8_t{0}).put(Place::in_descriptor);
  }
  check_lie(bytes, Shape{}, "nested more than");
}

}  // namespace
