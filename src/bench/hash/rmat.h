#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace breccia::bench::tables {

/// A directed graph: the sources of all edges, those into vertex v at [begin[v], begin[v + 1]).
/// Edges may come several times, and lead from a vertex to itself.
struct Graph {
  std::vector<std::uint32_t> sources;
  std::vector<std::uint64_t> begin;
  std::vector<std::uint32_t> degrees;  // edges out of each vertex

  [[nodiscard]] std::uint64_t vertices() const { return degrees.size(); }
  [[nodiscard]] std::uint64_t edges() const { return sources.size(); }
};

/// A graph of 2^scale vertices with so many edges for each, by all cores: an edge is in one of the
/// four quarters of the matrix with probabilities 0.57, 0.19, 0.19, 0.05, and so on within it.
/// Vertices are numbered anew, so what is popular lies anywhere.
/// Shape   1 <= scale <= 31.
/// Source  [rmat], with the probabilities of Graph 500.
Graph make_rmat(int scale, std::uint32_t edges_a_vertex, std::uint64_t seed);

/// Ranks of a graph's vertices behind so many iterations from equal ones, with damping 0.85; what
/// vertices without an edge out have goes to all. Their sum is 1.
std::vector<double> page_rank(const Graph& graph, std::uint32_t iterations);

inline constexpr double kDamping = 0.85;

}  // namespace breccia::bench::tables
