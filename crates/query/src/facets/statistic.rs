//! [`Statistic`]: one number of what a facet says.

/// One number of what a facet says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// The only one.
    Value,
    /// How many numbers; of filters, how many documents.
    Count,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The sum.
    Sum,
    /// The mean.
    Avg,
    /// The sum of squares.
    SumOfSquares,
    /// The variance of all numbers.
    Variance,
    /// Its root.
    Deviation,
    /// That of the percent at this place of the list.
    Percentile(usize),
}
