// Lists of tensors in frames: round trips, what cannot be sent, and lies.
#include "lists.h"
#include "net/list_encoding.h"

namespace {

using namespace native_tests;

const TensorList& list_of(const Tensor& variants, int64_t i = 0) {
  return dynamic_cast<TensorList&>(*variants.flat<ResourceHandle>()[i].resource);
}

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
  CHECK_FAILS(Code::invalid_argument, text, take_variants(parser, shape));
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
  Writer(element).put(uint64_t{1}).put(uint8_t{1}).put(int64_t{1} << 40);
  check_lie(element, Shape{}, "is shorter");
}

TEST(lists_nested_too_deeply_are_refused) {
  std::string bytes;
  for (int i = 0; i < 100000; ++i) {
    bytes += head(1, 1, DType::variant);
    Writer(bytes).put(uint64_t{1}).put(uint8_t{0});
  }
  check_lie(bytes, Shape{}, "nested more than");
}

}  // namespace
