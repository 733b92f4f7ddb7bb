"""How clients and servers step."""
