from engines import (
    duckdb_engine,
    engine,
    postgres_engine,
    pytest_runtest_setup,
    pytest_xdist_make_scheduler,
    spark_engine,
)

__all__ = [
    "duckdb_engine",
    "engine",
    "postgres_engine",
    "pytest_runtest_setup",
    "pytest_xdist_make_scheduler",
    "spark_engine",
]
