#include "h4a/file_handler.h"

#include <algorithm>
#include <utility>

#include "h4a/conditional.h"
#include "h4a/range.h"

namespace h4a::http {

/// How far ahead of the reader the disk is asked to be: a few chunks.
constexpr std::uint64_t kReadAheadBytes = std::uint64_t{1} << 20;

/// A part of an open file. Lives in the handler's pool.
class FileHandler::FileBody final : public BodySource {
 public:
  void begin(FileHandler& owner, File&& file, const ByteRange& range) noexcept {
    owner_ = &owner;
    file_.emplace(std::move(file));
    range_ = range;
    wanted_ = 0;
    look_ahead(0);
  }
  [[nodiscard]] bool in_use() const noexcept { return file_.has_value(); }

  [[nodiscard]] std::uint64_t size() const noexcept override { return range_.length; }
  [[nodiscard]] Result<void> read(std::uint64_t offset, MutableBytes out) noexcept override {
    look_ahead(offset + out.size());
    const auto n = file_->read(range_.first + offset, out);
    const bool whole = n && *n == out.size();
    // With the last octet: are all of them of one version?
    const bool last = offset + out.size() == range_.length;
    if (whole && (!last || file_->unchanged())) return {};
    ++owner_->counters_.failed;
    return failure(n ? Error::kTruncated : n.error());
  }
  void release() noexcept override { file_.reset(); }

 private:
  // In steps of half the distance, so that not each chunk costs a call.
  void look_ahead(std::uint64_t at) noexcept {
    const std::uint64_t until = std::min(at + kReadAheadBytes, range_.length);
    const bool small_step = until < range_.length && until - wanted_ < kReadAheadBytes / 2;
    if (until <= wanted_ || small_step) return;
    file_->will_need(range_.first + wanted_, until - wanted_);
    wanted_ = until;
  }

  FileHandler* owner_ = nullptr;
  std::optional<File> file_;
  ByteRange range_;
  std::uint64_t wanted_ = 0;  // of the range, asked of the disk so far
};

namespace {

// RFC 9110 §15.5, §15.6.
std::uint16_t status_of(Error e) noexcept {
  switch (e) {
    case Error::kMalformed:
      return 400;
    case Error::kAccess:
      return 403;
    case Error::kNotFound:
      return 404;
    case Error::kNoMemory:
      return 503;
    default:
      return 500;
  }
}

SelectingHeaders selecting(HeaderFields fields) noexcept {
  const auto value = [fields](std::string_view name) {
    return find_header(fields, name).value_or(std::string_view());
  };
  return {.if_match = value("if-match"),
          .if_none_match = value("if-none-match"),
          .if_modified_since = value("if-modified-since"),
          .if_unmodified_since = value("if-unmodified-since"),
          .if_range = value("if-range"),
          .range = value("range")};
}

void add(ServerResponse& response, std::string_view name, std::string_view value) noexcept {
  static_cast<void>(response.headers.add(name, value));
}

}  // namespace

FileHandler::FileHandler(FileRoot root, Options options)
    : root_(std::move(root)), options_(std::move(options)), bodies_(options_.bodies_max) {}
FileHandler::~FileHandler() = default;

bool FileHandler::serves(std::string_view, std::string_view authority) noexcept {
  if (options_.authorities.empty()) return true;
  return std::any_of(options_.authorities.begin(), options_.authorities.end(),
                     [&](const std::string& a) { return equals_ignoring_case(a, authority); });
}

void FileHandler::handle(const RequestHead& head, ServerResponse& response) noexcept {
  if (unix_seconds_ != 0) add(response, "date", http_date(unix_seconds_));
  FileBody* const body = free_body();
  auto file = body != nullptr ? root_.open_target(head.path) : failure(Error::kNoMemory);
  if (!file) {
    response.status = status_of(file.error());
    add(response, "content-length", "0");
    return count(response.status);
  }
  ByteRange range;
  answer(head, *file, response, range);
  if (range.length > 0 && head.method != "HEAD") {
    body->begin(*this, std::move(*file), range);
    response.body.reset(body);
  }
  count(response.status);
}

void FileHandler::answer(const RequestHead& head, const File& file, ServerResponse& response,
                         ByteRange& range) {
  const Selection selection = select(selecting(head.headers), file.validators(), file.size());
  response.status = static_cast<std::uint16_t>(selection.status);
  range = selection.range;
  add(response, "etag", file.validators().etag);
  add(response, "last-modified", http_date(file.validators().mtime_s));
  add(response, "accept-ranges", "bytes");
  if (selection.status == 304) return;  // RFC 9110 §15.4.5: no content, no length
  add(response, "content-length", std::to_string(range.length));
  if (selection.status == 206) add(response, "content-range", content_range(range, file.size()));
  if (selection.status == 416)
    add(response, "content-range", content_range_unsatisfied(file.size()));
  if (selection.status < 300) add(response, "content-type", file.content_type());
}

FileHandler::FileBody* FileHandler::free_body() noexcept {
  const auto free =
      std::find_if(bodies_.begin(), bodies_.end(), [](const FileBody& b) { return !b.in_use(); });
  return free == bodies_.end() ? nullptr : &*free;
}

void FileHandler::count(std::uint16_t status) noexcept {
  if (status < 300)
    ++counters_.served;
  else if (status < 400)
    ++counters_.unmodified;
  else if (status < 500)
    ++counters_.refused;
  else
    ++counters_.failed;
}

}  // namespace h4a::http
