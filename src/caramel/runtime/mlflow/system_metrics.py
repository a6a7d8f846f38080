"""Log what processor, memory, disk, network and GPU do during a run: MLflow's system metrics, in short runs too.

This module imports MLflow. GPUs are seen where the package ``nvidia-ml-py`` is installed.
"""

import logging

from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor, _logger

_logger.setLevel(logging.WARNING)  # it tells of each start and end, and of each machine without a GPU
INTERVAL = 5.0  # seconds between samples


class SystemMonitor(SystemMetricsMonitor):  # type: ignore[misc]  # MLflow's is untyped
    """MLflow's monitor of a run, which otherwise logs nothing of a run shorter than its interval."""

    def __init__(self, run_id: str, uri: str) -> None:
        """Sample for the run of this id in the store at ``uri``; a resumed run goes on counting its samples."""
        super().__init__(run_id, INTERVAL, samples_before_logging=1, resume_logging=True, tracking_uri=uri)
        self._first = self._logging_step

    def log_once(self) -> None:
        """Log one sample if none was logged since the run was opened. Call it after ``finish``."""
        if self._logging_step > self._first:
            return
        self.collect_metrics()
        self.publish_metrics(self.aggregate_metrics())
        self.mlflow_logger.flush()
