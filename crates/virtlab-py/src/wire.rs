//! Frames and blocks of the agent protocol.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use virtlab_wire::{block, frame, line, parquet};

/// Splits a byte stream into frames: `feed(bytes)`, then iterate over `(channel, kind, body)`.
#[pyclass]
struct FrameDecoder(frame::Decoder);

#[pymethods]
impl FrameDecoder {
    #[new]
    fn new() -> Self {
        Self(frame::Decoder::new())
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    /// Bytes that belonged to no valid frame.
    #[getter]
    fn stray_bytes(&self) -> u64 {
        self.0.stray_bytes()
    }

    /// What passing over cost, as bytes: more than a stream of frames has reason for means that it is not one.
    #[getter]
    fn noise_bytes(&self) -> u64 {
        self.0.noise_bytes()
    }

    /// The next `(channel, kind, body)`, or None until more bytes come.
    fn next_frame<'py>(&mut self, py: Python<'py>) -> Option<(u16, u16, Bound<'py, PyBytes>)> {
        self.0.next_frame().map(|frame| (frame.channel, frame.kind as u16, PyBytes::new(py, &frame.body)))
    }
}

/// A stream of frames over connections that break, see `virtlab_wire::line`. Read like a `FrameDecoder`.
#[pyclass]
struct FrameLine(line::Line);

#[pymethods]
impl FrameLine {
    #[new]
    fn new() -> Self {
        Self(line::Line::new(None))
    }

    /// The connection is gone.
    fn disconnect(&mut self) {
        self.0.disconnect();
    }

    /// A new connection is there.
    fn connect(&mut self) {
        self.0.connect();
    }

    /// Takes one encoded frame to be sent, now or on the next connection.
    fn send(&mut self, frame: Vec<u8>) {
        self.0.send_encoded(frame);
    }

    /// What is to be written on this connection now.
    fn take_out<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.take_out())
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    /// Bytes that belonged to no valid frame.
    #[getter]
    fn stray_bytes(&self) -> u64 {
        self.0.stray_bytes()
    }

    /// What passing over cost, as bytes: more than a stream of frames has reason for means that it is not one.
    #[getter]
    fn noise_bytes(&self) -> u64 {
        self.0.noise_bytes()
    }

    /// Whether both sides know on this connection what the other has.
    #[getter]
    fn joined(&self) -> bool {
        self.0.joined()
    }

    /// The process that a new connection is to be joined to; None until the other side told it.
    #[getter]
    fn far_process(&self) -> Option<u32> {
        self.0.far_process()
    }

    /// The next `(channel, kind, body)`, each exactly once, or None until more bytes come. ValueError when the
    /// other side is not the one that was spoken with before.
    fn next_frame<'py>(&mut self, py: Python<'py>) -> PyResult<Option<(u16, u16, Bound<'py, PyBytes>)>> {
        let frame = self.0.next_frame().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(frame.map(|frame| (frame.channel, frame.kind as u16, PyBytes::new(py, &frame.body))))
    }
}

/// One encoded frame. ValueError when the kind is unknown or the body too long.
#[pyfunction]
fn encode_frame<'py>(py: Python<'py>, channel: u16, kind: u16, body: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let kind = match kind {
        0 => frame::Kind::Control,
        1 => frame::Kind::Block,
        2 => frame::Kind::Data,
        other => return Err(PyValueError::new_err(format!("no frame kind {other}"))),
    };
    let mut out = Vec::new();
    frame::encode(channel, kind, body, &mut out).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(PyBytes::new(py, &out))
}

/// Where a column begins and ends, and whether its numbers are finite and less than 2^61 from zero.
type Place = (usize, usize, bool);

/// Header (JSON text) of a block body, and `(start, end, measurable)` of each column. ValueError when it is no block.
#[pyfunction]
fn decode_block(body: &[u8]) -> PyResult<(String, Vec<Place>)> {
    let (header, ranges) = block::decode(body).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let text = serde_json::to_string(&header).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let columns = header
        .columns
        .iter()
        .zip(ranges)
        .map(|(column, range)| (range.start, range.end, block::measurable(column.dtype, &body[range])));
    Ok((text, columns.collect()))
}

/// A column of a small Parquet file.
#[derive(FromPyObject)]
enum Given<'py> {
    I64(PyBuffer<i64>),
    I32(PyBuffer<i32>),
    F64(PyBuffer<f64>),
    Names(Vec<Bound<'py, PyString>>),
}

/// The numbers of one column, and texts by reference.
enum Held<'a> {
    I64(Vec<i64>),
    I32(Vec<i32>),
    F64(Vec<f64>),
    Names(Vec<&'a str>),
}

impl Given<'_> {
    fn held(&self, py: Python<'_>) -> PyResult<Held<'_>> {
        Ok(match self {
            Given::I64(values) => Held::I64(numbers(py, values)?),
            Given::I32(values) => Held::I32(numbers(py, values)?),
            Given::F64(values) => Held::F64(numbers(py, values)?),
            Given::Names(texts) => {
                Held::Names(texts.iter().map(|text| text.to_str()).collect::<PyResult<_>>()?)
            }
        })
    }
}

fn numbers<T: Element>(py: Python<'_>, values: &PyBuffer<T>) -> PyResult<Vec<T>> {
    if values.dimensions() != 1 {
        return Err(PyValueError::new_err("a column is an array of one dimension"));
    }
    values.to_vec(py)
}

/// Columns as the bytes of a small Parquet file: `(name, values)` in order, values one-dimensional arrays of int64,
/// int32 or float64, or lists of str, all equally long. ValueError when they are not.
#[pyfunction]
fn small_parquet<'py>(py: Python<'py>, columns: Vec<(String, Given<'py>)>) -> PyResult<Bound<'py, PyBytes>> {
    let held = columns.iter().map(|(_, given)| given.held(py)).collect::<PyResult<Vec<_>>>()?;
    let mut rows = Vec::new();
    let mut encoded = Vec::new();
    for ((name, _), held) in columns.iter().zip(&held) {
        let column = match held {
            Held::I64(values) => parquet::Column::I64(values),
            Held::I32(values) => parquet::Column::I32(values),
            Held::F64(values) => parquet::Column::F64(values),
            Held::Names(texts) => parquet::Column::Name(texts.clone()),
        };
        rows.push(column.rows());
        encoded.push((name.as_str(), column));
    }
    if rows.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(PyValueError::new_err(format!("columns of one file have {rows:?} rows")));
    }
    Ok(PyBytes::new(py, &parquet::encode(&encoded)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<FrameDecoder>()?;
    module.add_class::<FrameLine>()?;
    module.add_function(wrap_pyfunction!(encode_frame, module)?)?;
    module.add_function(wrap_pyfunction!(decode_block, module)?)?;
    module.add_function(wrap_pyfunction!(small_parquet, module)?)
}
