"""The records of all rooms, one a room."""

from typing import NamedTuple


class ProductsTuning(NamedTuple):
    """How much of a product is a piece of work. No result depends on it beyond rounding."""

    # A tile of a factorization has so many rows and columns, and rows of a kernel matrix are drawn so many at a time.
    tile: int = 192
    # A thread computes products, scores or sums of so many rows at a time.
    piece_rows: int = 1024


class StorageTuning(NamedTuple):
    """How much of rows and files is read, copied or held at once. Bytes are those of the rows as they are stored."""

    # A block of rows of a file, or a chunk of a file that is written, has about so many bytes.
    block_bytes: int = 4 << 20
    # It has at most one part in so many of all rows of its file, or one would be read long before others.
    least_blocks: int = 16
    # What is copied, converted, hashed or summed at once has about so many bytes, which stay near the processor.
    piece_bytes: int = 1 << 20
    # A block or run has at least so many bytes, or calls of HDF5 would take longer than the reading.
    run_bytes: int = 1 << 16
    # A block of rows in memory has so many rows: work once per block, such as preparing support vectors, is cheap.
    resident_rows: int = 4096
    # A window has at least so many runs: new windows in each epoch save dual ascent nine of ten epochs.
    runs: int = 8
    # A block may take one part in so many of the memory, as three or four are there at once.
    block_share: int = 32
    # So may a window of blocks, of which three are there at once, or rows of tiles that are unpacked together.
    window_share: int = 8
    # So may what is there packed, unpacked and copied, or beside all that a fit needs.
    loaded_share: int = 3


class ReaderLimits(NamedTuple):
    """What a file may make a reader do before it has shown as much content. Real files stay far below."""

    # So many bytes may be declared, or unpickled, whatever a file stores. Fill values take none.
    bytes: int = 1 << 28
    # Beyond these, so many bytes may be declared for each that is stored. That of gzip is at most 1,032.
    ratio: int = 4096
    # A header, or content that is searched or read whole, has at most so many bytes, which takes tenths of a second.
    read_bytes: int = 64 << 20
    # An archive has at most so many members, or a list so many names.
    entries: int = 10_000
    # There are at most so many classes, and a label has at most so many bytes.
    labels: int = 1 << 16
    # A pickle takes at most so many steps, twenty times the number of a published batch of CIFAR-10.
    steps: int = 1 << 20
    # A message names at most so many of the things that are wrong.
    shown: int = 20
    # It has at most so many letters of what cannot be a name or a number.
    letters: int = 40


class SGDTuning(NamedTuple):
    """How steps on mini-batches are taken. Each of the first four says whether a way may be taken."""

    # Features that occur in one row only are merged to one feature a row.
    private: bool = True
    # Steps on rows of few nonzero values touch only their columns; else rows are made dense.
    lazy: bool = True
    # A loop of its own takes such steps on batches of one row.
    single_rows: bool = True
    # Several epochs of few rows are taken in one call, until the objective is examined.
    together: bool = True
    # Features are merged if the problem lacks this share of them then.
    private_share: float = 0.25
    # Rows of few nonzero values have more than so many features for each of them.
    features_of_value: int = 8
    # With a loss of all classes at once they have more than so many: at 40, batches of dense rows took .4 to .6 of the
    # time, at 80 as long, at 160 up to twice as long.
    features_of_classes: int = 80
    # A mini-batch has so many rows by default, and fewer if there are few rows, of which equal ones are merged.
    batch: int = 32
    few_rows: int = 256
    batch_of_few: int = 8
    # Partial fits have smaller mini-batches of dense rows, too, if they would take fewer steps: of more values than
    # `few_values` in all, of `batch_of_values` rows at least.
    least_steps: int = 64
    few_values: int = 1 << 16
    batch_of_values: int = 4
    # A window of rows in memory has so many bytes, between two readings of the clock.
    window_bytes: int = 32 << 20
    # An epoch is taken to have so many steps where the amount of data is unknown.
    stream_steps: int = 1000
    # A step on a row alone changes its score by `FIRST_STEP` sizes of a score, and by so much at most if others are
    # unlike it: if their mean squared cosine is below `similar`, which is measured on `paired` rows.
    most_gain: float = 3.0
    similar: float = 0.1
    paired: int = 128
    # A step on a batch is at most so many times as long as one on a row.
    longest: float = 100 / 3
    # The square of the constant feature, whose weight is the intercept, is this share of the rows' squared norm.
    intercept_share: float = 0.1
    # First rates by feature are multiplied by this. With a third of 1, fits of all tables took twice the epochs and
    # ended at larger objectives; with 10, single passes over few rows went wrong.
    boldness: float = 10 / 3


class NystroemTuning(NamedTuple):
    """How landmarks are chosen, and features stored and read. The first two say whether a way may be taken."""

    # Rows are learnt in an order that mixes classes; else in their own order.
    mixed: bool = True
    # Features of bounded kernels are in half precision where memory does not hold more of them.
    halves: bool = True
    # Up to so many values, features are in double precision, which costs little then.
    exact_values: int = 1 << 22
    # `n_components="auto"` is the smallest of `first`, twice as many, ... `most`, whose trace error, measured on
    # `sample_rows` rows, is at most `trace_error`. The docstrings of the estimators say so.
    first: int = 64
    most: int = 2048
    trace_error: float = 0.01
    sample_rows: int = 1024
    # Pivots are drawn from so many rows for each landmark, as the docstrings of the estimators say.
    pool: int = 16
    # Support vectors are sought among so many rows for each landmark, and among `most` at least. Each of these rows
    # takes so many bytes beside its own.
    learnt: int = 10
    learnt_bytes: int = 512
    # They are those of a machine of this tolerance. A smaller one would change few of them.
    support_tol: float = 1e-3
    # So many distant runs of a file are mixed.
    runs: int = 32


class SearchTuning(NamedTuple):
    """Which fits of a search share kernel values, and how far a walk over C and gamma goes."""

    # Fits with one kernel share its values; else each computes its own.
    shared: bool = True
    # All rows of a problem form one working set if they are so many at most, as their kernel values are stored anyway.
    block_rows: int = 4096
    # The kernel matrices of fits that are solved together take one part in so many of the memory.
    matrix_share: int = 4
    # With so many pairs of classes, each of at most so many rows, one compiled call solves all pairs of a fit alone.
    many_pairs: int = 6
    few_rows: int = 128
    # A multiplier takes so many bytes, with the number, label, bound and gradient of its row.
    multiplier_bytes: int = 48
    # A search that chooses its cells begins with a part of the samples: at least so many, and so many of a class. Each
    # further part is so many times as large.
    least_rows: int = 800
    least_of_class: int = 20
    growth: int = 4
    # So many cells, at most, are taken from a part to the next.
    carried: int = 6
    # A move, and half a step from the best cell, must promise so many standard errors of the score.
    least_gain: float = 0.5
    least_promise: float = 1.0
    # Distances of so many samples tell the range of gamma.
    distance_rows: int = 1000


class ClusterTuning(NamedTuple):
    """What a client asks of a cluster, and how long it waits."""

    # A task that raised an error is tried again so many times.
    retries: int = 3
    # After so many seconds of waiting, the client looks whether there are workers. After so many looks in a row that
    # find none that takes tasks, the fit ends: a client may sleep in between.
    look_s: float = 5.0
    looks: int = 12
    # Each thread of the cluster gets so many machines at once.
    batch: int = 4
    # The states of shards are kept after so many rounds, or after so many bytes were told.
    kept_rounds: int = 10
    kept_bytes: int = 1 << 27
    # Dask writes results to disk from this share of the memory of a worker on, or .7.
    spilled: float = 0.6


class JobsTuning(NamedTuple):
    """How often a job speaks, saves and tries again, and how much it does in between. Times are in seconds."""

    # A block of rows that are predicted, or written in another order, has at most so many rows.
    block_rows: int = 16_384
    # It has at most so many decision values, which take 64 MiB.
    decisions: int = 1 << 23
    # A full disk is given so much time to get room.
    full_disk_s: float = 30.0
    # The log gets an event of progress, and predictions a journal, no more often than this.
    log_s: float = 2.0
    # A step that a signal should end may take so long. As long is waited before writing is tried again.
    wait_s: float = 1.0
    # Saving what is done so far may take this share of the time.
    save_share: float = 0.02
    # A search may take this share of the limit of time, and its samples as much of the memory.
    search_share: float = 0.5
    # A run keeps so many checkpoints, for the last one may be damaged.
    checkpoints: int = 2
    # The samples of so many classes are counted where a file is described.
    counted_classes: int = 50
    # Code is compiled for so few samples, whose kernel values are float64, and for so many, which fit no working set.
    warm_few: int = 300
    warm_many: int = 5000
    # Samples have so many features then, enough for products of bytes. Further epochs run the same code.
    warm_features: int = 40
    warm_epochs: int = 5


class Look(NamedTuple):
    """How pictures of models and reports look. Lengths are in pixels of a chart, which browsers scale."""

    # A chart is so wide, and 9/16 as high.
    width: int = 480
    # A line of text is so high, and its letters half as wide.
    line: int = 16
    # An axis has about so many ticks, and a legend names so many curves.
    ticks: int = 6
    # More points are smaller, drawn faintly and, in a chart, thinned out.
    points: int = 2000
    # The points of a curve are marked if there are fewer.
    marked: int = 40
    # So many curves of two-class problems are drawn, and so many means of losses and speeds.
    curves: int = 100
    # Objectives whose quotient is larger are drawn on a logarithmic axis.
    wide: float = 50.0
    # Gaps below this share of the tolerance, as exact steps leave, are drawn there.
    below: float = 0.01
    # Beyond the points, this share of their range is shown on each side, as Matplotlib does.
    padding: float = 0.05
    # Numbers have so many digits. Longer names of columns are vertical.
    digits: int = 4
    # Samples may be images from this side on, and are drawn with this side at most.
    least_side: int = 8
    most_side: int = 96
    # In images, neighbours differ by less than this share of the difference of other pixels.
    smooth: float = 0.8
    # An image takes this share of the side of its cell in a matrix.
    cell: float = 0.66
    # The deepest shade of a class has this share of its colour, and the tube of a regression the other.
    tint: float = 0.5
    tube: float = 0.18


class KernelTuning(NamedTuple):
    """Which way a fit takes, and when a solver changes its way. Times are those of one core of 2024 in nanoseconds."""

    # Problems of few samples may be solved whole, in compiled calls; else all are decomposed.
    small: bool = True
    # The rows of a problem may form one working set, which is solved in the order of LIBSVM.
    whole: bool = True
    # Newton steps on the free rows may be taken between steps of few multipliers.
    newton: bool = True
    # The interior-point method may solve a problem on which steps are slow.
    interior: bool = True
    # Equal rows may be merged into one, if a problem has more than `few_rows`, or so many dense rows of bytes.
    merged: bool = True
    few_rows_of_bytes: int = 100
    # Dense rows whose values stand on a grid of 256 may be multiplied as bytes.
    byte_products: bool = True

    # --- which solver takes steps of two multipliers
    # A problem of so many multipliers is small: steps on all of them stay in the processor's cache, kernel values in
    # float64 take no time that one would notice, and equal rows are not sought.
    few_rows: int = 2048

    # --- working sets
    # A working set that is solved without working sets of its own has so many rows at most.
    block_rows: int = 3072
    # A working set has so many rows in float32, which fit the processor's cache, and at first a quarter. The working
    # sets within a large one have as many. A large one has twice, four or eight times as many, and a Newton step four
    # times as many free rows at most.
    working_set: int = 1024
    # A working set, or one with working sets of its own, is solved to this share of the gap.
    set_gap: float = 0.02
    nested_gap: float = 0.1
    # Where all rows are one working set, those that may move are one of their own if they are at most such a share.
    movable_share: float = 0.5
    # A working set takes at most so many steps a row, and has at most so many working sets of its own.
    set_steps: int = 100
    # A fit is past its beginning after so many working sets, and in vain after as many in a row without progress, if
    # they took `many_steps` each in the mean.
    many_sets: int = 32
    # Whole kernel rows are computed only for multipliers that changed where rows are long: they have at least so many
    # times the values that a working set has.
    long_rows: int = 8

    # --- Newton steps, and the interior-point method
    # A problem is difficult after so many steps: a Newton step is tried, a small problem is left to decomposition, and
    # the interior-point method waits for those steps only that take as long as it does.
    many_steps: int = 20_000
    # A small problem tries one after so many.
    small_steps: int = 500
    # A step takes as long as so many multiplications of a factorisation, and one of a small problem as long as so many
    # operations of its factorisation a row.
    multiplications_of_step: float = 1e6
    step_operations: int = 6
    # The bounds within a Newton step are found in so many rounds, and polishing takes as many.
    most_rounds: int = 30
    # If a Newton step fixes a greater share of the rows at bounds, the free set is far from the right one.
    most_fixed: float = 0.25
    # Polishing takes Newton steps on so many free rows at most, and in small problems as many other steps between them.
    polished_rows: int = 300

    # --- kernel values
    # Kernel rows of values that take so little time are not stored, because reading them is slower.
    recomputed_ns: float = 0.8
    # Values among some thousand rows that take so little time are not stored either.
    nested_ns: float = 0.2
    # Values that take so little time are cheap: F is corrected in float64 by all of them, and the kernel among the rows
    # of a working set is computed rather than gathered from rows in memory. Others are copied by symmetry where many
    # rows are computed at once.
    cheap_ns: float = 4.0
    # Values that take so long are copied where few are, and working sets are twice as large.
    expensive_ns: float = 20.0
    # Once so large a share of the rows of a search was computed, all others are.
    singly_share: float = 0.4
    # All rows of a problem are computed at once if so large a share of them is expected to be needed.
    filled_share: float = 0.9

    # --- bytes, equal rows, and what is said
    # A whole kernel matrix of so many multiplications takes long enough to look for bytes.
    byte_multiplications: int = 1 << 31
    # So do predictions by support vectors of so many values.
    byte_values: int = 1 << 20
    # If a smaller share of the rows is equal to others, merging them does not pay for a copy of the other rows.
    repeated_share: float = 0.01
    # From so many samples of the largest problem on, a fit of some of them costs little beside it.
    many_samples: int = 150_000
    # That fit, of which the time of the whole one is guessed, has about so many samples of the largest problem.
    timed_samples: int = 10_000
    # A fit of so many seconds is long, which is said before it begins.
    long_seconds: float = 600.0

    # --- how much is done at once
    # A task for a thread takes about this time, of which handing it over is a hundredth.
    task_ns: float = 1e6
    # A compiled call takes about this time at most, a nanosecond for a comparison: no interrupt is noticed meanwhile.
    # As long may a matrix for several small problems take for each of them.
    call_ns: float = 2.5e7


class LinearTuning(NamedTuple):
    """Which solver fits a linear machine."""

    # Solvers of these names may be chosen; dual coordinate ascent solves what they do not.
    weights: bool = True
    gram: bool = True
    newton: bool = True
    rounds: bool = True
    # Gram matrices of blocks, or Hessians, take at most one of so many parts of the memory. A window on disk takes half
    # of a part, as three are there at once.
    memory_share: int = 4
    # A window of rows in memory, or the passes of a round, are so many multiplications. Between them the time is asked.
    step_work: int = 1 << 31
    # Up to so many values of a table, and so many of its samples or features, whichever are fewer, one compiled call
    # that takes Newton steps on the weights is faster than epochs.
    most_values: int = 1 << 20
    most_on_shorter_side: int = 320
    # A smaller `max_iter` asks for epochs to be seen, which such a call does not have.
    least_epochs: int = 100
    # The Gram matrix of up to so many samples is worth computing; of sparse rows, for the gap, up to so many a score.
    most_gram_samples: int = 2048
    samples_of_score: int = 30
    # Equal rows of tables of at most so many values are merged. Of more values, a smooth loss is minimised by Newton's
    # method with threads: found on tables of 115,000 to 900,000 values, where it took a quarter to nine tenths of the
    # time of the compiled call.
    small_values: int = 1 << 17
    # A fit whose Newton steps take so many multiplications ends within some 30 ms, and needs no thread that can be
    # stopped.
    short_work: int = 1 << 25
    # Newton steps on augmented Lagrangians may follow epochs.
    lagrangian: bool = True
    # Epochs solve subproblems with a proximal term, whose metric comes from the rows.
    proximal: bool = True
    # The metric is weakened where the gap falls slowly.
    metric_changes: bool = True
    # There are at most so many sweeps over a block of dense rows before the weights change.
    sweeps: int = 3
    # Dense rows are processed in blocks with a Gram matrix, else one by one.
    blocks: bool = True
    # A block has so many rows, or twice as many if a row has as many features, or half as many if its Gram matrix is
    # computed in each epoch.
    block_rows: int = 64
    # The Gram matrices of blocks are cached as far as the memory allows.
    cached_grams: bool = True
    # A row whose variables do not change is skipped for at most so many passes.
    longest_pause: int = 8
    # Where so many rounds do not halve the gap, epochs or Newton steps follow, if they can.
    slow_rounds: int = 4
    # A window of rows on disk is passed at most so often while it is in memory.
    most_visits: int = 4
    # The Hessian of at most so many features is computed and kept whole. Of more, products with the Hessian take less
    # time for ½‖w‖², whose directions then come from conjugate gradients, and ‖w‖₁ has a working set, to which as many
    # may be added at once. Squared losses of tables with more features are left to epochs, which took .9 to 75 times as
    # long on 24 tables of 300 to 784 features.
    hessian_features: int = 512
    conjugate_gradients: bool = True
    working_sets: bool = True
    # Splits of so many rows for each weight share a Hessian of so many features in so many Newton steps.
    rows_of_weight: int = 20
    shared_features: int = 1144
    shared_steps: int = 8
    # A Hessian keeps what rows whose curvature hardly changes have added to it.
    kept_hessian: bool = True
    # Steps with an L1 penalty on rows in memory sweep over their columns first, without a Hessian.
    columns: bool = True
    # Sparse rows with at most so many values in the mean column are learnt by rounds without sums over all features.
    # The first number is for a piecewise quadratic loss, the second for others. The third is for such a loss, the gap
    # and at most `most_values` stored ones: rounds took .25 to 1.9 times as long as epochs, .6 in the mean of 13 fits.
    values_of_feature: int = 30
    values_of_smooth: int = 10
    values_of_brief: int = 1500
