// Any bytes as a capture file: the reader ends, every record lies inside the file, and a fault is
// final.
#include "base/assert.h"
#include "net/capture_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  h4a::net::CaptureReader reader(h4a::Bytes{data, size});
  h4a::net::CaptureRecord record;
  std::size_t records = 0;
  while (reader.next(record)) {
    H4A_ASSERT(++records <= size);
    if (record.bytes.empty()) continue;
    H4A_ASSERT(record.bytes.data() >= data && record.bytes.size() <= size);
    H4A_ASSERT(record.bytes.data() - data <=
               static_cast<std::ptrdiff_t>(size - record.bytes.size()));
  }
  H4A_ASSERT(!reader.next(record));
  if (reader.fault().has_value()) H4A_ASSERT(!to_string(*reader.fault()).empty());
  return 0;
}
