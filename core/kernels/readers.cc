// The ops on readers: making them, reading, and their state.
#include "executor/step.h"
#include "kernel/handle_kernel.h"
#include "kernel/prompt_kernel.h"
#include "kernel/registry.h"
#include "resource/file_readers.h"

namespace thalweg {
namespace {

// Makes a reader, or finds that of the same name; R is the reader's class.
template <typename R>
struct Create : HandleKernel<R> {
  using HandleKernel<R>::HandleKernel;
  void check(const R&) const override {}
};

template <typename R>
struct CreatePlain : Create<R> {
  explicit CreatePlain(const Construction& c) : Create<R>(c) { this->prepare(c); }
  std::shared_ptr<R> make() const override { return std::make_shared<R>(this->name()); }
};

struct CreateTextLine : Create<TextLineReader> {
  explicit CreateTextLine(const Construction& c) : Create(c), skip(c.attr<int64_t>("skip_header_lines", 0)) {
    prepare(c);
  }
  std::shared_ptr<TextLineReader> make() const override { return std::make_shared<TextLineReader>(name(), skip); }
  int64_t skip;
};

struct CreateFixedLength : Create<FixedLengthRecordReader> {
  explicit CreateFixedLength(const Construction& c)
      : Create(c),
        format{c.attr<int64_t>("record_bytes"), c.attr<int64_t>("header_bytes", 0), c.attr<int64_t>("footer_bytes", 0),
               c.attr<int64_t>("hop_bytes", 0)},
        compression(compression_from_name(c.attr<std::string>("encoding", ""))) {
    format.check();
    prepare(c);
  }
  std::shared_ptr<FixedLengthRecordReader> make() const override {
    return std::make_shared<FixedLengthRecordReader>(name(), format, compression);
  }
  FixedLengthFormat format;
  Compression compression;
};

struct CreateTFRecord : Create<TFRecordReader> {
  explicit CreateTFRecord(const Construction& c)
      : Create(c), compression(compression_from_name(c.attr<std::string>("compression_type", ""))) {
    prepare(c);
  }
  std::shared_ptr<TFRecordReader> make() const override {
    return std::make_shared<TFRecordReader>(name(), compression);
  }
  Compression compression;
};

Tensor to_tensor(std::vector<std::string>&& strings, bool many) {
  Tensor out(DType::string, many ? Shape{static_cast<int64_t>(strings.size())} : Shape{});
  std::move(strings.begin(), strings.end(), out.strings());
  return out;
}

template <bool many>
struct Read : PromptKernel {
  explicit Read(const Construction&) {}

  bool attempt(Context& ctx) override {
    Reader::Records records;
    // Reading no records takes no work.
    if (count(ctx) > 0 && !ctx.resource<Reader>(0).try_read(ctx.resource<Queue>(1), count(ctx), records)) return false;
    set_outputs(ctx, std::move(records));
    return true;
  }
  void start(std::shared_ptr<AsyncContext> ctx) override {
    Reader& reader = ctx->resource<Reader>(0);
    Cancellation& cancellation = ctx->step().cancellation();
    const ResourceHandle& queue = *ctx->input(1).flat<ResourceHandle>();
    int64_t most = count(*ctx);
    reader.read(queue, most, cancellation, [ctx](std::optional<Error> error, Reader::Records records) {
      if (error) return ctx->fail(*std::move(error));
      set_outputs(*ctx, std::move(records));
      ctx->done();
    });
  }

  static int64_t count(Context& ctx) {
    if constexpr (!many) return 1;
    require(ctx.input(2).rank() == 0, "num_records must be a scalar, got shape ", ctx.input(2).shape());
    int64_t most = to_int64(ctx.input(2));
    require(most >= 0, "num_records must not be negative, got ", most);
    return most;
  }
  static void set_outputs(Context& ctx, Reader::Records records) {
    ctx.set_output(0, to_tensor(std::move(records.keys), many));
    ctx.set_output(1, to_tensor(std::move(records.values), many));
  }
};

void num_records_produced(Context& ctx) {
  ctx.set_output(0, Tensor::scalar(ctx.resource<Reader>(0).num_records_produced()));
}
void num_work_units_completed(Context& ctx) {
  ctx.set_output(0, Tensor::scalar(ctx.resource<Reader>(0).num_work_units_completed()));
}
void serialize_state(Context& ctx) { ctx.set_output(0, Tensor::scalar(ctx.resource<Reader>(0).serialize())); }
void restore_state(Context& ctx) {
  require(ctx.input(1).rank() == 0, "Reader state must be scalar, but had shape: ", ctx.input(1).shape());
  ctx.resource<Reader>(0).restore(*ctx.input(1).strings());
}
void reset(Context& ctx) { ctx.resource<Reader>(0).reset(); }

REGISTER(kernel("IdentityReaderV2").make<CreatePlain<IdentityReader>>());
REGISTER(kernel("WholeFileReaderV2").make<CreatePlain<WholeFileReader>>());
REGISTER(kernel("TextLineReaderV2").make<CreateTextLine>());
REGISTER(kernel("FixedLengthRecordReaderV2").make<CreateFixedLength>());
REGISTER(kernel("TFRecordReaderV2").make<CreateTFRecord>());
REGISTER(kernel("ReaderReadV2").make<Read<false>>());
REGISTER(kernel("ReaderReadUpToV2").make<Read<true>>());
REGISTER(kernel("ReaderNumRecordsProducedV2").function<num_records_produced>());
REGISTER(kernel("ReaderNumWorkUnitsCompletedV2").function<num_work_units_completed>());
REGISTER(kernel("ReaderSerializeStateV2").function<serialize_state>());
REGISTER(kernel("ReaderRestoreStateV2").function<restore_state>());
REGISTER(kernel("ReaderResetV2").function<reset>());

}  // namespace
}  // namespace thalweg
