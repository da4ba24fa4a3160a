#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fabric/libfabric/engine.h"
#include "fabric/libfabric/provider.h"
#include "fabric/libfabric/watch.h"
#include "fabric/port.h"

namespace breccia::fabric::libfabric {

/// A port to other computers, by libfabric: RDMA where there is hardware for it, else TCP.
///
/// Several reads of one call are accesses that are under way at once where hardware does them, and
/// a message that asks for all where software does.
///
/// Bound   a peer that does not take messages holds 4 MiB of them here and 256 KiB on the way.
/// Order   that a peer has died is told within half a minute, if it was not seen before.
/// Errors  of a read or write that the provider refused is IOError, and the peer is gone: so are
///         those of regions that end meanwhile.
class LibfabricPort final : public Port {
 public:
  /// Errors  NotSupported, IOError: as Provider::open()'s. MemoryLimit.
  static Result<std::unique_ptr<LibfabricPort>> open(const Options& options);
  ~LibfabricPort() override;

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::string address() const override { return engine_->address(); }
  [[nodiscard]] TimeUs now_us() const override;
  [[nodiscard]] Result<std::unique_ptr<Region>> make_region(std::uint64_t bytes,
                                                            Access access) override;
  [[nodiscard]] Result<PeerId> connect(const std::string& address, TimeUs until) override;
  [[nodiscard]] bool is_gone(PeerId peer) const override;
  void disconnect(PeerId peer) override;
  [[nodiscard]] Status read(PeerId peer, std::span<const Read> reads, TimeUs until) override;
  [[nodiscard]] Status write(PeerId peer, std::span<const Write> writes, TimeUs until) override;
  [[nodiscard]] Status read_all(std::span<const ReadsOf> all, TimeUs until) override;
  [[nodiscard]] Status write_all(std::span<const WritesTo> all, TimeUs until) override;
  [[nodiscard]] Status send(PeerId peer, const Header& header, std::span<const std::byte> payload,
                            TimeUs until) override;
  [[nodiscard]] std::optional<Arrival> poll(TimeUs until) override;

 private:
  class Memory;  // a region
  class Call;
  struct Transfer {
    PeerId peer;
    Engine::Transfer what;
  };
  using Transfers = std::vector<Transfer>;
  /// Small accesses of one peer, which it is asked for by messages: reads, or writes.
  struct Asked {
    PeerId peer = 0;
    std::vector<Read> reads = {};
    std::vector<Write> writes = {};
    std::size_t asked_reads = 0, asked_writes = 0;

    [[nodiscard]] bool is_none() const { return reads.empty() && writes.empty(); }
    [[nodiscard]] bool is_asked() const {
      return asked_reads == reads.size() && asked_writes == writes.size();
    }
  };

  LibfabricPort(std::unique_ptr<Engine> engine, std::unique_ptr<Watch> watch)
      : engine_(std::move(engine)), watch_(std::move(watch)) {}
  Status check(Call* call, PeerId peer, const RegionName& region, std::uint64_t offset,
               std::uint64_t bytes, Rights needs);
  Status transfer(Call* call, const std::vector<PeerId>& peers, const Transfers& transfers);
  Status ask(Call* call, std::vector<Asked>* all);
  [[nodiscard]] bool ask_for(Asked* one, Engine::Batch* batch);
  Status flush(Call* call, PeerId peer);

  const std::unique_ptr<Engine> engine_;
  const std::unique_ptr<Watch> watch_;  // ends before what it watches
};

}  // namespace breccia::fabric::libfabric
