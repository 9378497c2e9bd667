// The ESP keys of this process as Wireshark's ESP SA table (DESIGN D12): one line an SA, in the format
// of Wireshark's file `esp_sa`. Whoever has the file can read and forge the traffic: it is created with
// mode 0600.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "base/address.h"
#include "base/bytes.h"
#include "base/esp_suite.h"
#include "base/ids.h"

namespace h4a::apps {

class EspKeyLog {
 public:
  /// Does nothing until opened.
  EspKeyLog() = default;
  /// Creates or truncates `path`. @param error one line, if false.
  [[nodiscard]] bool open(const std::string& path, std::string& error);
  /// Adds an SA and flushes. `esn`: stated in a comment that `h4a replay` reads.
  void add(const IpAddress& source, const IpAddress& destination, Spi spi, EspSuite suite,
           Bytes key, bool esn);

 private:
  struct Close {
    void operator()(std::FILE* f) const noexcept { std::fclose(f); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace h4a::apps
