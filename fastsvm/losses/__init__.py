"""Losses, one in a file and one in a line here. To add one, see `fastsvm.losses.interface`; `check_loss` checks it."""

from fastsvm.losses.check import check_loss as check_loss
from fastsvm.losses.crammer_singer import CrammerSinger as CrammerSinger
from fastsvm.losses.epsilon_insensitive import EpsilonInsensitive as EpsilonInsensitive
from fastsvm.losses.hinge import Hinge as Hinge
from fastsvm.losses.huber import Huber as Huber
from fastsvm.losses.interface import *  # noqa: F403, the one list of what losses have
from fastsvm.losses.log import Log as Log
from fastsvm.losses.modified_huber import ModifiedHuber as ModifiedHuber
from fastsvm.losses.rows import *  # noqa: F403
from fastsvm.losses.softmax import Softmax as Softmax
from fastsvm.losses.squared import Squared as Squared
from fastsvm.losses.squared_epsilon_insensitive import SquaredEpsilonInsensitive as SquaredEpsilonInsensitive
from fastsvm.losses.squared_hinge import SquaredHinge as SquaredHinge
from fastsvm.losses.weston_watkins import WestonWatkins as WestonWatkins
